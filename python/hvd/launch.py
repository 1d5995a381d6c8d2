"""Starts ranks from Python: hvd.run, and a launcher in the manner of torch.distributed.launcher.

    results = hvd.run(train, args=(0.1,), np=4)

    config = hvd.launch.LaunchConfig(nproc_per_node=4, log_dir="logs")
    results = hvd.launch.elastic_launch(config, train)(0.1)

    config = hvd.launch.LaunchConfig(nproc_per_node=4, min_np=2, max_restarts=3)
    results = hvd.launch.elastic_launch(config, train_elastic)()
"""
import json
import multiprocessing.spawn
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from hvd import _launch_events, _programs, _worker
from hvd._hosts import is_this_machine as _is_this_machine
from hvd.errors import HvdError, InvalidError
from hvd.errors import as_int as _as_int


@dataclass
class ProcessFailure:
    """How a rank failed: the exit status of its process, negative if a signal killed it, and the
    traceback of its exception, if it was one. rank is that at the start of the job."""

    rank: int
    local_rank: int
    pid: int
    exitcode: int
    message: str
    timestamp: float
    traceback: Optional[str] = None

    def signal_name(self) -> str:
        """SIGKILL, for example; "" if no signal killed it."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else ""

    def timestamp_isoformat(self) -> str:
        """When it failed, in local time."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class RunError(HvdError):
    """The job failed. str() has the traceback of the rank that failed first, or what hvdrun says of
    it. rank and exit_status say which and how; rank is None if no rank is to blame, as when hvdrun
    was given a wrong option."""

    def __init__(self, sentence: str, rank: Optional[int], exit_status: int):
        super().__init__(sentence)
        self.rank, self.exit_status = rank, exit_status


class ChildFailedError(RunError):
    """A rank failed. failures has what is known of it, and of other ranks that an exception ended,
    by rank."""

    def __init__(self, sentence: str, rank: int, failures: Dict[int, ProcessFailure], status: int):
        super().__init__(sentence, rank, status)
        self.failures = failures

    def get_first_failure(self) -> Tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        return self.rank, self.failures[self.rank]


@dataclass
class LaunchConfig:
    """How ranks are started. They are nproc_per_node ranks on this machine, because that is where
    hvdrun starts them: min_nodes is 1, and if max_nodes is more, the job goes without the other
    nodes, as that of torchrun does when no other node comes. On several, srun starts the program.

    With min_np or max_np the job is elastic, see hvd.elastic: it goes on while min_np ranks are
    left (default: nproc_per_node), each rank that fails is started again up to max_restarts times,
    and if options name hosts, as by --host-discovery=SCRIPT, the job grows up to max_np ranks.
    Otherwise a failure ends all ranks, and all are started again, up to max_restarts times.

    event_handler is called with each event of the job, a dict as hvdrun(1) describes it, in another
    thread of this process. metrics_cfg={"file": PATH} has the metrics written there for Prometheus.
    With log_dir output goes to log_dir/run_id/attempt_N/rank.R.out and rank.R.err, and with tee
    also to this process's output; log_line_prefix_template is what is before each line there, with
    ${role_name}, ${local_rank} and ${rank} in it.

    rdzv_timeout, or "timeout" of rdzv_configs, is how many seconds the start may take, and its
    "join_timeout" how many an elastic job waits for ranks that it lacks. The other fields are there
    for programs of torch.distributed.launcher: ranks find each other without an rdzv_backend, at no
    port, and hvdrun sees that a rank has ended without a monitor_interval."""

    min_nodes: int = 1
    max_nodes: int = 1
    nproc_per_node: int = 1
    run_id: str = ""
    role: str = "default"
    rdzv_endpoint: str = ""
    rdzv_backend: str = ""
    rdzv_configs: Dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: float = -1
    max_restarts: int = 0
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_dir: Optional[str] = None
    redirects: Any = 0
    tee: Any = False
    metrics_cfg: Dict[str, str] = field(default_factory=dict)
    log_line_prefix_template: Optional[str] = None
    event_handler: Optional[Callable[[Dict[str, Any]], None]] = None
    min_np: Optional[int] = None
    max_np: Optional[int] = None
    error_file: Optional[str] = None  # JSON about the rank that failed first
    options: Sequence[str] = ()  # more options of hvdrun, such as --hvd-fusion=64M
    env: Dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise InvalidError for what ranks cannot be started by."""
        self._check_nodes()
        self._check_counts()
        self._check_rendezvous()
        self._check_output()
        if isinstance(self.options, str):
            raise InvalidError("options=%r: expected a list, as [%r]" % ((self.options,) * 2))
        for name, value in self.env.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidError("env: %r=%r: expected two strings" % (name, value))
        self.first_epoch()

    def _check_nodes(self) -> None:
        nodes = [_as_int(each, getattr(self, each)) for each in ("min_nodes", "max_nodes")]
        if nodes[0] != 1 or nodes[1] < 1:
            raise InvalidError(
                "min_nodes=%d, max_nodes=%d: hvd.launch starts ranks on this machine, so min_nodes "
                "is 1; start the program by srun on several" % tuple(nodes)
            )
        host = self.rdzv_endpoint.rpartition(":")[0] or self.rdzv_endpoint
        if not _is_this_machine(host.strip("[]")):
            raise InvalidError(
                "rdzv_endpoint=%s: is another machine, and hvd.launch starts ranks on this one; "
                "start the program by srun on several" % self.rdzv_endpoint
            )

    def _check_counts(self) -> None:
        for each, least in (("nproc_per_node", 1), ("max_restarts", 0)):
            if _as_int(each, getattr(self, each)) < least:
                raise InvalidError(
                    "%s=%d: expected %d or more" % (each, getattr(self, each), least)
                )
        for each, least, most in (
            ("min_np", 1, self.nproc_per_node),
            ("max_np", self.nproc_per_node, None),
        ):
            number = getattr(self, each)
            if number is None:
                continue
            if _as_int(each, number) < least or (most is not None and number > most):
                expected = "%d or more" % least if most is None else "%d to %d" % (least, most)
                raise InvalidError(
                    "%s=%d: the job begins with %d ranks; expected %s"
                    % (each, number, self.nproc_per_node, expected)
                )

    def _check_rendezvous(self) -> None:
        for name, value in [("rdzv_timeout", self.rdzv_timeout)] + list(self._timeouts().items()):
            if not isinstance(value, (int, float)) or (value <= 0 and value != -1):
                raise InvalidError("%s=%r: expected a number of seconds" % (name, value))
        if not self.monitor_interval > 0:
            raise InvalidError("monitor_interval=%r: expected seconds" % self.monitor_interval)
        if self.start_method != "spawn":
            raise InvalidError(
                "start_method=%r: hvdrun starts each rank as a program of its own; expected 'spawn'"
                % self.start_method
            )

    def _check_output(self) -> None:
        for name in ("redirects", "tee"):
            value = getattr(self, name)
            if value is not True and value not in (None, 0, 3):  # True is equal to Std.OUT
                raise InvalidError(
                    "%s=%r: hvdrun writes both streams of all ranks, or none; expected Std.ALL or "
                    "Std.NONE" % (name, value)
                )
        other = [name for name in self.metrics_cfg if name != "file"]
        if other:
            raise InvalidError("metrics_cfg: %r is not known; expected 'file'" % other[0])
        if self.event_handler is not None and not callable(self.event_handler):
            raise InvalidError("event_handler=%r: expected a function" % (self.event_handler,))
        if self.event_handler and any(str(each).startswith("--events") for each in self.options):
            raise InvalidError("event_handler and --events both take the events; leave one out")

    def _timeouts(self) -> Dict[str, Any]:
        """Those of rdzv_configs that are known here."""
        names = ("timeout", "join_timeout")
        return {name: self.rdzv_configs[name] for name in names if name in self.rdzv_configs}

    def is_elastic(self) -> bool:
        """Does the job go on when ranks are lost, or grow?"""
        return self.min_np is not None or self.max_np is not None

    def first_epoch(self) -> int:
        """HVD_EPOCH of the first attempt."""
        text = self.env.get("HVD_EPOCH", "0")
        if not (text.isascii() and text.isdigit()):
            raise InvalidError("env: HVD_EPOCH=%s: expected a whole number" % text)
        return int(text)


def _pickled(function: Callable, args: Sequence[Any], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """The call as the ranks get it. cloudpickle, where it is installed, also takes functions of
    notebooks."""
    try:
        import cloudpickle

        return {"call": cloudpickle.dumps((function, args, kwargs)), "preparation": None}
    except ImportError:
        pass
    try:
        call = pickle.dumps((function, args, kwargs))
    except Exception as error:
        raise InvalidError(
            "the function or its arguments cannot be pickled (%s): define it at the top level of a "
            "module, or install cloudpickle" % error
        ) from error
    preparation = multiprocessing.spawn.get_preparation_data("hvd")
    preparation.pop("authkey", None)  # a secret of this process
    return {"call": call, "preparation": preparation}


def _reports(folder: str) -> Dict[int, Dict[str, Any]]:
    """What ranks have written of exceptions that ended them, by rank."""
    reports = []
    for name in os.listdir(folder):
        if name.endswith(".error"):
            with open(os.path.join(folder, name)) as file:
                reports.append(json.load(file))
    return {report["rank"]: report for report in reports}


def _results(folder: str, ranks: int) -> Dict[int, Any]:
    """By rank. In an elastic job those of the last epoch in which ranks ended: since a rank has
    ended none has joined, so that it is the smallest."""
    names = [_worker.RESULT.fullmatch(name) for name in os.listdir(folder)]
    found = [(int(name[1]), int(name[2]), name[0]) for name in names if name]
    last = min((size for size, _, _ in found), default=0)
    results = {} if last else {rank: None for rank in range(ranks)}
    for size, rank, name in sorted(found):
        if size == last:
            with open(os.path.join(folder, name), "rb") as file:
                results[rank] = pickle.load(file)
    return results


def _output_options(config: LaunchConfig, run_id: str, attempt: int) -> List[str]:
    options = []
    if config.log_line_prefix_template is not None:
        options.append("--line-prefix=" + config.log_line_prefix_template)
    if config.log_dir:
        folder = os.path.join(config.log_dir, run_id, "attempt_%d" % attempt)
        options.append("--output-dir=" + os.path.abspath(folder))
        options += [] if config.tee else ["--only-rank=none"]
    return options


def _elastic_options(config: LaunchConfig) -> List[str]:
    if not config.is_elastic():
        return []
    options = ["--max-restarts=%d" % config.max_restarts]
    options += ["--min-np=%d" % config.min_np] if config.min_np is not None else []
    options += ["--max-np=%d" % config.max_np] if config.max_np is not None else []
    wait = config.rdzv_configs.get("join_timeout")
    return options + (["--elastic-timeout=%dms" % (wait * 1000)] if wait is not None else [])


def _options(config: LaunchConfig, run_id: str, attempt: int) -> List[str]:
    """Those of hvdrun."""
    start = config.rdzv_timeout
    start = config.rdzv_configs.get("timeout", -1) if start == -1 else start
    options = ["--launcher=local", "-n", str(config.nproc_per_node)]
    options += ["--run-id=" + run_id, "--role=" + config.role]
    if config.max_nodes > 1:
        options.append("--nnodes=1:%d" % config.max_nodes)  # hvdrun says what comes of it
    options += ["--hvd-start-timeout=%dms" % (start * 1000)] if start != -1 else []
    options += ["--metrics=" + config.metrics_cfg["file"]] if config.metrics_cfg else []
    options += _elastic_options(config) + _output_options(config, run_id, attempt)
    if attempt > 0:  # hvdrun itself counts only its own
        for name in ("HVD_RESTART", "TORCHELASTIC_RESTART_COUNT"):
            options += ["-x", "%s=%d" % (name, attempt)]
    return options + list(config.options)


def _environment(config: LaunchConfig, attempt: int) -> Dict[str, str]:
    """That of the ranks: this process's, then what the caller gives, then what ranks need."""
    environment = {**os.environ, **config.env}
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = [here] + [each for each in [environment.get("PYTHONPATH")] if each]
    epoch = config.first_epoch() + attempt
    return {**environment, "PYTHONPATH": os.pathsep.join(path), "HVD_EPOCH": str(epoch)}


_VERDICT = re.compile(
    rb"^hvd: (rank (\d+) \([^\n]*?, pid (\d+)[^\n]*\) (?:failed|ended|was ended) first: [^\n]*)$",
    re.MULTILINE,
)
_VERDICT_BYTES = 1 << 16  # the verdict is among the last lines


def _run_hvdrun(command: List[str], environment: Dict[str, str]) -> Tuple[int, Any, str]:
    """Its status, the line in which it names the rank that failed first, and its last line. What it
    writes to standard error is passed on."""
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as hvdrun:
        last = b""
        for piece in iter(lambda: os.read(hvdrun.stderr.fileno(), 1 << 16), b""):
            last = (last + piece)[-_VERDICT_BYTES:]
            while piece:
                piece = piece[os.write(2, piece) :]
    found = list(_VERDICT.finditer(last))
    lines = last.decode(errors="replace").splitlines()
    return hvdrun.returncode, found[-1] if found else None, lines[-1] if lines else ""


def _attempt(
    config: LaunchConfig, work: Dict[str, Any], run_id: str, attempt: int
) -> Dict[int, Any]:
    """Start all ranks once and wait for their end."""
    folder = tempfile.mkdtemp(prefix="hvd-run.")  # only this user can read it
    try:
        with open(os.path.join(folder, "work"), "wb") as file:
            pickle.dump(work, file)
        events = _launch_events.Reader(folder, config.event_handler)
        command = [_programs.find("hvdrun"), *_options(config, run_id, attempt), *events.options()]
        command += ["--", sys.executable, "-m", "hvd._worker", folder]
        try:
            status, verdict, line = _run_hvdrun(command, _environment(config, attempt))
        finally:
            events.close()
        if status == 0:
            return _results(folder, config.nproc_per_node)
        if verdict is None:
            _fail_as_whole(config, status, line)
        _fail(config, status, verdict, _reports(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _failure_of(report: Dict[str, Any]) -> ProcessFailure:
    return ProcessFailure(
        rank=report["rank"],
        local_rank=report["rank"],  # hvdrun starts all on this machine
        pid=report["pid"],
        exitcode=report["exit_status"],
        message="%s: %s" % (report["type"], report["message"]),
        timestamp=report["time"],
        traceback=report["traceback"],
    )


def _failures(
    status: int, verdict: Any, reports: Dict[int, Dict[str, Any]]
) -> Dict[int, ProcessFailure]:
    """Also of a rank that could not report it, which hvdrun has named."""
    failures = {rank: _failure_of(report) for rank, report in reports.items()}
    rank = int(verdict[2])
    if rank not in failures:
        exitcode = 128 - status if status > 128 else status
        sentence = verdict[1].decode(errors="replace")
        failures[rank] = ProcessFailure(
            rank, rank, int(verdict[3]), exitcode, sentence, time.time()
        )
    return failures


def _write_error_file(config: LaunchConfig, report: Dict[str, Any]) -> None:
    if config.error_file:
        with open(config.error_file, "w") as file:
            json.dump(report, file)


def _fail_as_whole(config: LaunchConfig, status: int, line: str) -> None:
    _write_error_file(config, {"exit_status": status})
    raise RunError("hvdrun ended with status %d: %s" % (status, line), None, status)


def _fail(
    config: LaunchConfig, status: int, verdict: Any, reports: Dict[int, Dict[str, Any]]
) -> None:
    rank, sentence = int(verdict[2]), verdict[1].decode(errors="replace")
    report = reports.get(rank, {"rank": rank, "exit_status": status, "message": sentence})
    _write_error_file(config, report)
    trace = report.get("traceback")
    if trace is not None:
        cause = trace.rstrip().rsplit("\n", 1)[-1]
        sentence = "rank %d failed first: %s\n%s" % (rank, cause, trace)
    raise ChildFailedError(sentence, rank, _failures(status, verdict, reports), status)


class elastic_launch:
    """elastic_launch(config, entrypoint)(*args): call a function, or run a command, on all ranks.
    Returns the functions' results by rank; those of a command are None. In an elastic job these are
    the ranks of its last epoch. Raises ChildFailedError if the job fails for good."""

    def __init__(self, config: LaunchConfig, entrypoint: Union[Callable, str, None]):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any, **kwargs: Any) -> Dict[int, Any]:
        config = self._config
        config.check()
        work: Dict[str, Any] = {"command": None}
        if callable(self._entrypoint):
            work.update(_pickled(self._entrypoint, args, kwargs))
        else:
            work["command"] = [self._entrypoint or sys.executable] + [str(each) for each in args]
        run_id = config.run_id or uuid.uuid4().hex[:8]
        last = 0 if config.is_elastic() else config.max_restarts  # hvdrun makes those of ranks
        for attempt in range(last + 1):
            try:
                return _attempt(config, work, run_id, attempt)
            except RunError as error:
                if attempt == last:
                    raise
                sys.stderr.write("hvd: %s\nhvd: starting again\n" % str(error).splitlines()[0])


def run(
    func: Callable,
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = None,
    np: int = 1,
    options: Sequence[str] = (),
    env: Optional[Dict[str, str]] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
    max_restarts: int = 0,
) -> List[Any]:
    """Call func(*args, **kwargs) on [np] ranks on this machine; returns the results in the order of
    ranks. func calls hvd.init(). If a rank fails, raises ChildFailedError with its traceback.
    [options] are more options of hvdrun.

    With [min_np] or [max_np] the job is elastic, see LaunchConfig: func trains by hvd.elastic.run.
    The results are then those of the ranks of the last epoch, and None for those of the start that
    are no more."""
    if not callable(func):
        raise InvalidError("hvd.run: func=%r: expected a function" % (func,))
    np = _as_int("hvd.run: np", np)
    config = LaunchConfig(
        nproc_per_node=np,
        options=options,
        env=env or {},
        min_np=min_np,
        max_np=max_np,
        max_restarts=max_restarts,
    )
    results = elastic_launch(config, func)(*args, **(kwargs or {}))
    return [results.get(rank) for rank in range(max([np - 1, *results]) + 1)]
