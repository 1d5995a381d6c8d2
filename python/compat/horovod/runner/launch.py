"""horovodrun: takes Horovod's options, and starts hvdrun."""
import difflib
import os
import sys
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import hvd
from horovod.runner import config_file
from hvd import _programs
from hvd._device import nccl_version
from hvd._hosts import is_this_machine


class _Option(NamedTuple):
    """What becomes of one of Horovod's options: it takes [values] arguments, [make] makes options
    of hvd."""

    values: int
    make: Optional[Callable[..., List[str]]]
    why: str = ""  # why it is ignored (make is None)


class Refused(Exception):
    """The command line cannot be carried out; the text says why."""


def require_this_machine(hosts: str) -> int:
    """The number of slots of a list of hosts, all of which must be this machine."""
    total = 0
    for each in hosts.split(","):
        host, _, slots = each.partition(":")
        if not is_this_machine(host):
            raise Refused(
                "%s is another machine: horovod.run starts ranks on this one; on several start the "
                "program by hvdrun -H or srun" % host
            )
        total += int(slots) if slots.isdigit() else 1
    return total


def _value(name: str) -> _Option:
    return _Option(1, lambda value: ["--hvd-%s=%s" % (name, value)])


def _with_unit(name: str, unit: str) -> _Option:
    return _Option(1, lambda value: ["--hvd-%s=%s%s" % (name, value, unit)])


_CHOOSES = "hvd chooses by itself how data travels"
_NO_CYCLE = "hvd has no cycles: it starts what is ready"
_NO_SSH = "hvd does not use ssh"
_NO_MPI = "hvd starts ranks without mpirun; where it needs that, hvdrun --launcher=mpirun starts it"
_BINDS = "hvd binds ranks by itself; --hvd-bind=POLICY says otherwise"
_STREAM = "hvd has one stream on each GPU"
_LOG_LEVELS = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warning": "warn",
    "error": "error",
    "fatal": "error",
}

_OPTIONS: Dict[str, _Option] = {
    "--fusion-threshold-mb": _with_unit("fusion", "M"),
    "--cache-capacity": _value("cache"),
    "--start-timeout": _with_unit("start-timeout", "s"),
    "--elastic-timeout": _Option(1, lambda value: ["--elastic-timeout=%ss" % value]),
    "--blacklist-cooldown-range": _Option(
        2, lambda low, high: ["--host-cooldown=%ss:%ss" % (low, high)]
    ),
    "--min-np": _Option(1, lambda value: ["--min-np=" + value]),
    "--max-np": _Option(1, lambda value: ["--max-np=" + value]),
    "--host-discovery-script": _Option(1, lambda value: ["--host-discovery=" + value]),
    "--slots-per-host": _Option(1, lambda value: ["--slots-per-host=" + value]),
    "--stall-check-warning-time-seconds": _with_unit("stall-warn", "s"),
    "--stall-check-shutdown-time-seconds": _with_unit("stall-abort", "s"),
    "--no-stall-check": _Option(
        0, lambda: ["--hvd-stall-warn=0", "--hvd-stall-abort=0", "--hvd-hang-abort=0"]
    ),
    "--stall-check": _Option(0, lambda: []),
    "--timeline-filename": _value("timeline"),
    "--network-interfaces": _value("nics"),
    "--network-interface": _value("nics"),
    "--autotune": _Option(0, lambda: ["--hvd-autotune=on"]),
    "--no-autotune": _Option(0, lambda: []),
    "--autotune-log-file": _value("autotune-file"),
    "--log-level": _Option(1, lambda value: ["--hvd-log=" + _LOG_LEVELS[value.lower()]]),
    "--verbose": _Option(0, lambda: ["--hvd-log=info"]),
    "--cycle-time-ms": _Option(1, None, _NO_CYCLE),
    "--timeline-mark-cycles": _Option(0, None, _NO_CYCLE),
    "--no-timeline-mark-cycles": _Option(0, None, _NO_CYCLE),
    "--disable-cache": _Option(0, None, _NO_SSH),
    "--ssh-port": _Option(1, None, _NO_SSH),
    "--ssh-identity-file": _Option(1, None, _NO_SSH),
    "--prefix-output-with-timestamp": _Option(0, lambda: ["--timestamps"]),
    "--hosts": _Option(1, lambda value: ["-H", value]),
    "--hostfile": _Option(1, lambda value: ["--hostfile", value]),
    "--config-file": _Option(1, lambda path: ["--config-file", path]),  # translate reads it
    "--reset-limit": _Option(1, lambda value: ["--reset-limit=" + value]),
    "--output-filename": _Option(1, lambda value: ["--output-dir", value]),
}
for _name in ("--hierarchical-allreduce", "--hierarchical-allgather", "--torus-allreduce"):
    _OPTIONS[_name] = _OPTIONS["--no-" + _name[2:]] = _Option(0, None, _CHOOSES)
for _name in (
    "--gloo",
    "--mpi",
    "--jsrun",
    "--tcp",
    "--mpi-threads-disable",
    "--no-mpi-threads-disable",
):
    _OPTIONS[_name] = _Option(0, None, _CHOOSES)
for _name, _why in (("--mpi-args", _NO_MPI), ("--binding-args", _BINDS),
                    ("--thread-affinity", _BINDS), ("--num-nccl-streams", _STREAM),
                    ("--gloo-timeout-seconds", _CHOOSES)):  # fmt: skip
    _OPTIONS[_name] = _Option(1, None, _why)
for _name in ("--autotune-warmup-samples", "--autotune-steps-per-sample",
              "--autotune-bayes-opt-max-samples", "--autotune-gaussian-process-noise"):  # fmt: skip
    _OPTIONS[_name] = _Option(1, None, "hvd's autotuner has no such setting")
for _name in ("--log-with-timestamp", "--log-without-timestamp", "--log-hide-timestamp",
              "--no-log-hide-timestamp"):  # fmt: skip
    _OPTIONS[_name] = _Option(0, None, "hvd's log always has the time")

_SHORT = {
    "-p": "--ssh-port",
    "-i": "--ssh-identity-file",
    "-H": "--hosts",
    "-hostfile": "--hostfile",
    "-prefix-timestamp": "--prefix-output-with-timestamp",
    "--min-num-proc": "--min-np",
    "--max-num-proc": "--max-np",
    "--slots": "--slots-per-host",
}
_COUNT = ("-np", "--num-proc", "-n")
_MAKE_ELASTIC = {"--min-np", "--max-np", "--host-discovery-script"}
_NEED_ELASTIC = {"--elastic-timeout", "--blacklist-cooldown-range"}


def _say(sentence: str) -> None:
    sys.stderr.write("horovodrun: %s\n" % sentence)


def _take(words: List[str], name: str, inline: Optional[str], count: int) -> List[str]:
    """The values of an option."""
    if inline is not None and count < 2:
        return [inline][:count]
    if len(words) < count or inline is not None:
        raise Refused("%s needs %s" % (name, "a value" if count == 1 else "%d values" % count))
    return [words.pop(0) for _ in range(count)]


def _unknown(name: str) -> Refused:
    known = list(_OPTIONS) + list(_SHORT) + list(_COUNT) + ["--version", "--check-build", "--help"]
    near = difflib.get_close_matches(name, known, 1)
    hint = "; did you mean %s?" % near[0] if near else "; horovodrun --help lists the options"
    return Refused("%s: unknown%s" % (name, hint))


def _words_of_file(path: str) -> List[str]:
    try:
        return config_file.words_of(path)
    except config_file.Unreadable as error:
        raise Refused("--config-file %s: %s" % (path, error))


def of_fixed_job(options: List[str]) -> List[str]:
    """In a job that is not elastic all ranks are started again after a failure, at most as often
    as --reset-limit says, nothing waits for --elastic-timeout, and no host is left out."""
    limit = "--reset-limit="
    return [
        each.replace(limit, "--max-restarts=") if each.startswith(limit) else each
        for each in options
        if not each.startswith(("--elastic-timeout=", "--host-cooldown="))
    ]


def _complete(options: List[str], given: Dict[str, str]) -> List[str]:
    """What follows from all options together."""
    if not _MAKE_ELASTIC & given.keys():
        for name in _NEED_ELASTIC & given.keys():
            _say("%s is ignored: the job is not elastic; --min-np makes it so" % name)
        return of_fixed_job(options)
    timeout = os.environ.get("HOROVOD_ELASTIC_TIMEOUT")
    if timeout and "--elastic-timeout" not in given:
        options = options + _OPTIONS["--elastic-timeout"].make(timeout)
    return options


def translate(words: List[str]) -> Tuple[Optional[int], List[str], List[str]]:
    """The number of ranks, options of hvd, and the command."""
    words, ranks, options = list(words), None, []
    given: Dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name, equals, rest = word.partition("=")
        inline = rest if equals else None
        if name in _COUNT:
            text = _take(words, name, inline, 1)[0]
            if not text.isdigit() or int(text) < 1:
                raise Refused("%s %s: expected a number of ranks" % (name, text))
            ranks = int(text)
            continue
        if name.startswith("--hvd-"):
            options.append(word)
            continue
        name = _SHORT.get(name, name)
        known = _OPTIONS.get(name)
        if known is None:
            raise _unknown(name)
        values = _take(words, name, inline, known.values)
        given.update((name, value) for value in values)
        if name == "--config-file":
            words[:0] = _words_of_file(values[0])
            continue
        if known.make is None:
            _say("%s is ignored: %s" % (name, known.why))
            continue
        try:
            options += known.make(*values)
        except KeyError:
            raise Refused("%s %s: expected one of %s" % (name, values[0], ", ".join(_LOG_LEVELS)))
    if ranks is None and given.get("--min-np", "").isdigit():
        ranks = int(given["--min-np"])
    return ranks, _complete(options, given), words


def launcher(ranks: int, options: List[str], command: List[str]) -> List[str]:
    """The command line of hvdrun, which becomes srun, jsrun or mpirun where ranks are elsewhere."""
    return [_programs.find("hvdrun"), "-n", str(ranks), *options, "--", *command]


def _check_build() -> None:
    print("hvd %s in place of Horovod\n" % hvd.version())
    print("Available Frameworks:\n    [ ] TensorFlow\n    [X] PyTorch\n    [ ] MXNet\n")
    print("Available Controllers:\n    [X] hvd\n")
    nccl = "X" if nccl_version() else " "
    print("Available Tensor Operations:")
    print("    [%s] NCCL\n    [ ] DDL\n    [ ] CCL\n    [X] hvd" % nccl)


def _note(name: str, option: _Option) -> str:
    """What becomes of an option, for the help."""
    if option.make is None:
        return "ignored: " + option.why
    if name == "--config-file":
        return "the same options from a file of YAML; those after it count"
    if name == "--log-level":
        return "--hvd-log=VALUE"
    return " ".join(option.make(*["VALUE"] * option.values))


def _usage() -> None:
    print("Usage: horovodrun -np N [options] command [arg ...]\n")
    print("Horovod's launcher, on hvd. Options:")
    for name, option in sorted(_OPTIONS.items()):
        print("  %-40s %s" % (name, _note(name, option)))


def main(arguments: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] in (["-v"], ["--version"]):
        print(hvd.version())
        return 0
    if words[:1] in (["-cb"], ["--check-build"]):
        _check_build()
        return 0
    if not words or words[0] in ("-h", "--help"):
        _usage()
        return 0 if words else 2
    try:
        ranks, options, command = translate(words)
        if ranks is None:
            raise Refused("-np N is missing: how many ranks?")
        if not command:
            raise Refused("there is no command to run")
        line = launcher(ranks, options, command)
    except (Refused, hvd.HvdError) as error:
        _say(str(error))
        return 2
    sys.stdout.flush()
    os.execvp(line[0], line)


if __name__ == "__main__":
    sys.exit(main())
