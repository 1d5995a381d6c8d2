"""Starts ranks from Python: hvd.run, and a launcher in the manner of torch.distributed.launcher.

    results = hvd.run(train, args=(0.1,), np=4)

    config = hvd.launch.LaunchConfig(nproc_per_node=4, log_dir="logs")
    results = hvd.launch.elastic_launch(config, train)(0.1)
"""
import json
import multiprocessing.spawn
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from hvd import _programs
from hvd.errors import HvdError, InvalidError
from hvd.errors import as_int as _as_int


class RunError(HvdError):
    """A rank failed. str() has its traceback, or what hvdrun says of it; rank and exit_status say
    which and how."""

    def __init__(self, sentence: str, rank: Optional[int], exit_status: int):
        super().__init__(sentence)
        self.rank, self.exit_status = rank, exit_status


@dataclass
class LaunchConfig:
    """How ranks are started. The number of ranks is fixed: min_nodes and max_nodes are 1, because
    hvdrun starts ranks on this machine; on several, srun starts the program. With log_dir output
    goes to log_dir/run_id/attempt_N/rank.R.out and rank.R.err, and with tee also to this process's
    output."""

    min_nodes: int = 1
    max_nodes: int = 1
    nproc_per_node: int = 1
    run_id: str = ""
    max_restarts: int = 0
    log_dir: Optional[str] = None
    tee: bool = False
    error_file: Optional[str] = None  # JSON about the rank that failed first
    options: Sequence[str] = ()  # more options of hvdrun, such as --hvd-fusion=64M
    env: Dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise InvalidError for what ranks cannot be started by."""
        for each in ("min_nodes", "max_nodes", "nproc_per_node", "max_restarts"):
            _as_int(each, getattr(self, each))
        if self.min_nodes != 1 or self.max_nodes != 1:
            raise InvalidError(
                "min_nodes=%d, max_nodes=%d: hvd.launch starts ranks on this machine, so both are "
                "1; start the program by srun on several" % (self.min_nodes, self.max_nodes)
            )
        if self.nproc_per_node < 1:
            raise InvalidError("nproc_per_node=%d: expected 1 or more" % self.nproc_per_node)
        if isinstance(self.options, str):
            raise InvalidError("options=%r: expected a list, as [%r]" % ((self.options,) * 2))
        for name, value in self.env.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidError("env: %r=%r: expected two strings" % (name, value))
        self.first_epoch()

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


def _first_failure(folder: str, rank: Optional[int]) -> Optional[Dict[str, Any]]:
    """What [rank] has written of its failure; None stands for the rank that wrote first."""
    reports = []
    for name in os.listdir(folder):
        if name.endswith(".error"):
            with open(os.path.join(folder, name)) as file:
                reports.append(json.load(file))
    if rank is not None:
        reports = [report for report in reports if report["rank"] == rank]
    return min(reports, key=lambda report: report["time"], default=None)


def _result(folder: str, rank: int) -> Any:
    try:
        with open(os.path.join(folder, "rank-%d.result" % rank), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return None


def _results(folder: str, ranks: int) -> List[Any]:
    """Those of [ranks] ranks, or of more, if an elastic job has grown."""
    found = [re.fullmatch(r"rank-(\d+)\.result", name) for name in os.listdir(folder)]
    count = max([ranks] + [int(each[1]) + 1 for each in found if each])
    return [_result(folder, rank) for rank in range(count)]


def _output_options(config: LaunchConfig, run_id: str, attempt: int) -> List[str]:
    if not config.log_dir:
        return []
    folder = os.path.join(config.log_dir, run_id, "attempt_%d" % attempt)
    shown = [] if config.tee else ["--only-rank=none"]
    return ["--output-dir=" + os.path.abspath(folder), *shown]


def _environment(config: LaunchConfig, attempt: int) -> Dict[str, str]:
    """That of the ranks: this process's, then what the caller gives, then what ranks need."""
    environment = {**os.environ, **config.env}
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = [here] + [each for each in [environment.get("PYTHONPATH")] if each]
    epoch = config.first_epoch() + attempt
    return {**environment, "PYTHONPATH": os.pathsep.join(path), "HVD_EPOCH": str(epoch)}


_VERDICT = re.compile(
    rb"^hvd: (rank (\d+) \([^\n]*\) (?:failed|was ended) first: [^\n]*)$", re.MULTILINE
)
_VERDICT_BYTES = 1 << 16  # the verdict is among the last lines


def _run_hvdrun(command: List[str], environment: Dict[str, str]) -> Tuple[int, Any]:
    """Its status, and the line in which it names the rank that failed first. What it writes to
    standard error is passed on."""
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as hvdrun:
        last = b""
        for piece in iter(lambda: os.read(hvdrun.stderr.fileno(), 1 << 16), b""):
            last = (last + piece)[-_VERDICT_BYTES:]
            while piece:
                piece = piece[os.write(2, piece) :]
    found = list(_VERDICT.finditer(last))
    return hvdrun.returncode, found[-1] if found else None


def _attempt(config: LaunchConfig, work: Dict[str, Any], run_id: str, attempt: int) -> List[Any]:
    """Start all ranks once and wait for their end."""
    folder = tempfile.mkdtemp(prefix="hvd-run.")  # only this user can read it
    try:
        with open(os.path.join(folder, "work"), "wb") as file:
            pickle.dump(work, file)
        command = [_programs.find("hvdrun"), "--launcher=local"]
        command += ["-n", str(config.nproc_per_node), *_output_options(config, run_id, attempt)]
        command += config.options
        command += ["--", sys.executable, "-m", "hvd._worker", folder]
        status, verdict = _run_hvdrun(command, _environment(config, attempt))
        if status == 0:
            return _results(folder, config.nproc_per_node)
        rank = int(verdict[2]) if verdict else None
        report = _first_failure(folder, rank)
        if report is None and verdict:
            report = {"rank": rank, "exit_status": status, "message": verdict[1].decode()}
        _fail(config, report, status)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fail(config: LaunchConfig, report: Optional[Dict[str, Any]], status: int) -> None:
    if config.error_file:
        with open(config.error_file, "w") as file:
            json.dump(report or {"exit_status": status}, file)
    if report is None:
        raise RunError("hvdrun ended with status %d; it says above why" % status, None, status)
    traceback = report.get("traceback")
    if traceback is None:
        raise RunError(report["message"], report["rank"], status)
    cause = traceback.rstrip().rsplit("\n", 1)[-1]
    raise RunError(
        "rank %d failed first: %s\n%s" % (report["rank"], cause, traceback), report["rank"], status
    )


class elastic_launch:
    """elastic_launch(config, entrypoint)(*args): call a function, or run a command, on all ranks.
    Returns the functions' results by rank. After a failure the ranks are started again, at most
    max_restarts times; their number does not change."""

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
        for attempt in range(config.max_restarts + 1):
            try:
                return dict(enumerate(_attempt(config, work, run_id, attempt)))
            except RunError as error:
                if attempt == config.max_restarts:
                    raise
                sys.stderr.write("hvd: %s\nhvd: starting again\n" % str(error).splitlines()[0])


def run(
    func: Callable,
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = None,
    np: int = 1,
    options: Sequence[str] = (),
    env: Optional[Dict[str, str]] = None,
) -> List[Any]:
    """Call func(*args, **kwargs) on [np] ranks on this machine; returns the results in the order of
    ranks. func calls hvd.init(). If a rank fails, raises RunError with its traceback. [options] are
    more options of hvdrun."""
    if not callable(func):
        raise InvalidError("hvd.run: func=%r: expected a function" % (func,))
    np = _as_int("hvd.run: np", np)
    config = LaunchConfig(nproc_per_node=np, options=options, env=env or {})
    results = elastic_launch(config, func)(*args, **(kwargs or {}))
    return [results[rank] for rank in sorted(results)]
