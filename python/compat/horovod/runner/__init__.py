"""horovod.run: calls a function on several ranks of this machine."""
from typing import Any, Callable, Dict, List, Optional, Sequence

from hvd.launch import run as _run

_MAKE_ELASTIC = ("min_np", "min_num_proc", "max_np", "max_num_proc", "host_discovery_script")
# how Horovod's own launcher reaches hosts and chooses what carries data, which hvd does by itself
_IGNORED = ("ssh_port", "ssh_identity_file", "disable_cache", "use_gloo", "use_mpi", "mpi_args")


def _options_of(named: Dict[str, Any]) -> List[str]:
    """The options of hvdrun for what run was given by name; takes these out of [named]."""
    options = []
    for name, make in (
        ("start_timeout", lambda value: "--hvd-start-timeout=%ds" % value),
        ("elastic_timeout", lambda value: "--elastic-timeout=%ds" % value),
        ("min_np", lambda value: "--min-np=%d" % value),
        ("min_num_proc", lambda value: "--min-np=%d" % value),
        ("max_np", lambda value: "--max-np=%d" % value),
        ("max_num_proc", lambda value: "--max-np=%d" % value),
        ("host_discovery_script", lambda value: "--host-discovery=%s" % value),
        ("slots", lambda value: "--slots-per-host=%d" % value),
        ("cooldown_range", lambda value: "--host-cooldown=%ds:%ds" % tuple(value)),
        ("verbose", lambda _: "--hvd-log=info"),
        ("output_filename", lambda value: "--output-dir=%s" % value),
        ("prefix_output_with_timestamp", lambda _: "--timestamps"),
        ("network_interfaces", lambda value: "--hvd-nics=%s" % value),
        ("network_interface", lambda value: "--hvd-nics=%s" % value),
        ("reset_limit", lambda value: "--reset-limit=%d" % value),
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
    arguments min_np, max_np, host_discovery_script, slots, elastic_timeout, start_timeout, verbose,
    output_filename, prefix_output_with_timestamp, network_interfaces, reset_limit and
    cooldown_range are taken too; those are ignored that say how its launcher reaches hosts and
    chooses what carries data. With min_np the job goes on without ranks that fail, and with max_np
    and a script it grows; results are in the order of the ranks at the end, and None after
    them."""
    from horovod.runner.launch import of_fixed_job, require_this_machine

    np = np or num_proc or named.get("min_np") or named.get("min_num_proc") or 1
    if hosts:
        require_this_machine(hosts)
    is_elastic = any(named.get(name) for name in _MAKE_ELASTIC)
    options = _options_of(named)
    if not is_elastic:
        options = of_fixed_job(options)
    for name in _IGNORED:
        named.pop(name, None)
    if any(value is not None for value in named.values()):
        raise TypeError("horovod.run: hvd does not know the argument %s" % ", ".join(named))
    return _run(func, args, kwargs, np=np, options=options)
