"""horovod.run: calls a function on several ranks of this machine."""
from typing import Any, Callable, Dict, List, Optional, Sequence

from hvd.errors import InvalidError
from hvd.launch import run as _run

_NO_HOSTS = "hvd does not look for hosts yet: ranks are on this machine, and np says how many"
_NOT_YET = ("slots", "host_discovery_script", "cooldown_range")
# how Horovod's own launcher reaches hosts and chooses what carries data, which hvd does by itself
_IGNORED = ("ssh_port", "ssh_identity_file", "disable_cache", "use_gloo", "use_mpi", "mpi_args")


def _options_of(named: Dict[str, Any]) -> List[str]:
    """The options of hvdrun for what run was given by name; takes these out of [named]."""
    options = []
    for name, make in (
        ("start_timeout", lambda value: "--hvd-start-timeout=%ds" % value),
        ("elastic_timeout", lambda value: "--hvd-start-timeout=%ds" % value),
        ("min_np", lambda value: "--min-np=%d" % value),
        ("min_num_proc", lambda value: "--min-np=%d" % value),
        ("verbose", lambda _: "--hvd-log=info"),
        ("output_filename", lambda value: "--output-dir=%s" % value),
        ("prefix_output_with_timestamp", lambda _: "--timestamps"),
        ("network_interfaces", lambda value: "--hvd-nics=%s" % value),
        ("network_interface", lambda value: "--hvd-nics=%s" % value),
        ("reset_limit", lambda value: "--max-restarts=%d" % value),
    ):
        value = named.pop(name, None)
        if value:
            options.append(make(value))
    return options


def run(
    func: Callable,
    args: Sequence[Any] = (),
    kwargs: Optional[dict] = None,
    np: Optional[int] = None,
    num_proc: Optional[int] = None,
    hosts: Optional[str] = None,
    **named: Any
) -> List[Any]:
    """Call func on np ranks, and return the results in the order of ranks. Of Horovod's other
    arguments min_np, max_np, elastic_timeout, start_timeout, verbose, output_filename,
    prefix_output_with_timestamp, network_interfaces and reset_limit are taken too; those are
    ignored that say how its launcher reaches hosts and chooses what carries data. With min_np the
    job goes on without ranks that fail; results are in the order of the ranks that are left, and
    None after them."""
    from horovod.runner.launch import require_fixed_most, require_one_timeout, require_this_machine

    for name in _NOT_YET:
        if named.pop(name, None) is not None:
            raise InvalidError("horovod.run: %s: %s" % (name, _NO_HOSTS))
    np = np or num_proc or 1
    for name in ("max_np", "max_num_proc"):
        most = named.pop(name, None)
        if most is not None:
            require_fixed_most(str(most), np)
    limits = {"--" + name.replace("_", "-"): str(named[name])
              for name in ("start_timeout", "elastic_timeout") if named.get(name)}  # fmt: skip
    require_one_timeout(limits)
    if hosts:
        require_this_machine(hosts)
    options = _options_of(named)
    for name in _IGNORED:
        named.pop(name, None)
    if any(value is not None for value in named.values()):
        raise TypeError("horovod.run: hvd does not know the argument %s" % ", ".join(named))
    return _run(func, args, kwargs, np=np, options=options)
