"""Plans: the calls of in-place allreduces that are made in each step, under the same name and on
tensors that stay where they were."""
from typing import Any, Dict, Optional, Sequence, Tuple

from hvd._calls import Call

_LIMIT = 16384
# what a signature raises for a tensor of another kind, or one that cannot be written any more
_NO_SIGNATURE = (TypeError, ValueError, BufferError, RuntimeError, AttributeError)
# by name: what the program asked for, the adapter and the signature of its tensors, and the call
_plans: Dict[str, Tuple[Tuple, Any, Any, Call]] = {}


def find(name: str, settings: Tuple, tensor: Any) -> Optional[Call]:
    """The call that was planned for such an allreduce of this tensor, if there is one."""
    plan = _plans.get(name)
    if plan is None or plan[0] != settings:
        return None
    try:
        return plan[3] if plan[1].signature(tensor) == plan[2] else None
    except _NO_SIGNATURE:
        return None


def find_group(name: str, settings: Tuple, tensors: Sequence[Any]) -> Optional[Call]:
    """The same of a grouped allreduce."""
    plan = _plans.get(name)
    if plan is None or plan[0] != settings:
        return None
    try:
        return plan[3] if plan[1].signatures(tensors) == plan[2] else None
    except _NO_SIGNATURE:
        return None


def keep(name: str, settings: Tuple, adapter: Any, signature: Any, call: Call) -> None:
    if len(_plans) >= _LIMIT:
        _plans.clear()
    _plans[name] = (settings, adapter, signature, call)


def forget() -> None:
    """A new job has begun."""
    _plans.clear()
