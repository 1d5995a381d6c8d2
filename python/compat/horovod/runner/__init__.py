"""horovod.run: calls a function on several ranks of this machine."""
from typing import Any, Callable, List, Optional, Sequence

from hvd.errors import InvalidError
from hvd.launch import run as _run

_LATER = "hvd cannot change the number of ranks while a job runs yet"


def run(
    func: Callable,
    args: Sequence[Any] = (),
    kwargs: Optional[dict] = None,
    np: Optional[int] = None,
    num_proc: Optional[int] = None,
    hosts: Optional[str] = None,
    start_timeout: Optional[int] = None,
    verbose: Any = None,
    **others: Any
) -> List[Any]:
    """Call func on np ranks, and return the results in the order of ranks. Arguments of Horovod's
    that say how its own launcher works are ignored."""
    from horovod.runner.launch import require_this_machine

    for name in ("min_np", "max_np", "min_num_proc", "max_num_proc", "host_discovery_script"):
        if others.get(name) is not None:
            raise InvalidError("horovod.run: %s: %s" % (name, _LATER))
    if hosts:
        require_this_machine(hosts)
    options = []
    if start_timeout:
        options.append("--hvd-start-timeout=%ds" % start_timeout)
    if verbose:
        options.append("--hvd-log=info")
    return _run(func, args, kwargs, np=np or num_proc or 1, options=options)
