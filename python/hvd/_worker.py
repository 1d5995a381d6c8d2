"""What hvd.run and hvd.launch start on each rank: calls a function, or runs a command, and keeps
what comes of it."""
import json
import multiprocessing.spawn
import os
import pickle
import re
import sys
import time
import traceback
from typing import Any, Dict

from hvd._job import is_elastic, last_place, write_error_file


def rank_of_launcher() -> str:
    """This process's rank, as the launcher says; init has not been called."""
    for variable in ("PMIX_RANK", "SLURM_PROCID", "RANK"):
        if os.environ.get(variable):
            return os.environ[variable]
    return "0"


RESULT = re.compile(r"size-(\d+)\.rank-(\d+)\.result")  # the names of files with results


def _result_path(folder: str) -> str:
    """In an elastic job it has rank and size of this process's last epoch, otherwise no size."""
    place = last_place() if is_elastic() else None
    rank, size = (int(rank_of_launcher()), 0) if place is None else place
    return os.path.join(folder, "size-%d.rank-%d.result" % (size, rank))


def _write(path: str, content: bytes) -> None:
    with open(path + ".part", "wb") as file:
        file.write(content)
    os.rename(path + ".part", path)


def _status_of(error: BaseException) -> int:
    """The status with which Python ends for an exception that nobody catches."""
    code = error.code if isinstance(error, SystemExit) else 1
    return code & 0xFF or 1 if isinstance(code, int) else 1


def _call(work: Dict[str, Any], folder: str) -> int:
    """Call the function; its result or its exception goes into a file of this rank."""
    place = os.path.join(folder, "rank-%s" % rank_of_launcher())
    try:
        if work["preparation"] is not None:
            multiprocessing.spawn.prepare(work["preparation"])
        function, args, kwargs = pickle.loads(work["call"])
        result = pickle.dumps(function(*args, **kwargs))
        _write(_result_path(folder), result)
        return 0
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            _write(_result_path(folder), pickle.dumps(None))
            return 0
        report = {
            "rank": int(rank_of_launcher()),
            "pid": os.getpid(),
            "exit_status": _status_of(error),
            "time": time.time(),
            "type": type(error).__name__,
            "message": str(error),
            "traceback": traceback.format_exc(),
        }
        _write(place + ".error", json.dumps(report).encode())
        write_error_file(type(error), error, error.__traceback__)
        sys.stderr.write(report["traceback"])
        sys.stderr.flush()
        # without shutdown: this rank's end is the first failure that the others see
        os._exit(_status_of(error))


def main() -> int:
    folder = sys.argv[1]
    with open(os.path.join(folder, "work"), "rb") as file:
        work = pickle.load(file)
    if work["command"] is not None:
        os.execvp(work["command"][0], work["command"])
    return _call(work, folder)


if __name__ == "__main__":
    sys.exit(main())
