"""Plans: the calls of in-place allreduces that are made in each step, under the same name and on
tensors that stay where they were."""
from typing import Any, Callable, Dict, Optional, Tuple

from hvd._calls import Call

_LIMIT = 16384
# what a signature raises for a tensor of another kind, or one that cannot be written any more
_NO_SIGNATURE = (TypeError, ValueError, BufferError, RuntimeError, AttributeError)
# by name: what the program asked for, the function that gives the signature of its tensors, that
# signature, and the call
_plans: Dict[str, Tuple[Tuple, Callable[[Any], Any], Any, Call]] = {}


def find(name: str, settings: Tuple, tensor: Any) -> Optional[Call]:
    """The call that was planned for such an allreduce of this tensor, or such a grouped allreduce
    of these, if there is one."""
    plan = _plans.get(name)
    if plan is None:
        return None
    planned, sign, signature, call = plan
    try:
        return call if planned == settings and sign(tensor) == signature else None
    except _NO_SIGNATURE:
        return None


def keep(
    name: str, settings: Tuple, sign: Callable[[Any], Any], tensor: Any, call: Call
) -> None:
    """Plan a call for what find will be asked. [sign] gives what is equal as long as the tensor, or
    each of several, is where it was, and as it was. What has no signature, such as an array without
    elements, is not planned."""
    try:
        signature = sign(tensor)
    except _NO_SIGNATURE:
        return
    if len(_plans) >= _LIMIT:
        _plans.clear()
    _plans[name] = (settings, sign, signature, call)


def forget() -> None:
    """A new job has begun."""
    _plans.clear()
