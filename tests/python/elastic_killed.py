"""A program of elastic training whose launcher is killed:

    elastic_killed.py PROGRAM COMMITS OPTION...

After so many commits rank 0 kills hvdrun, whose process id is in the file that ELASTIC_LAUNCHER
names, as soon as two commits are on disk."""
import os
import runpy
import signal
import sys
import time

import hvd.elastic
from hvd._library import lib


def kill_launcher():
    """Ends this process, too."""
    newer = os.path.join(lib.hvd_state_dir().decode(), "hvd-state.1.b")
    end = time.monotonic() + 20
    while not os.path.exists(newer) and time.monotonic() < end:
        time.sleep(0.001)
    with open(os.environ["ELASTIC_LAUNCHER"]) as file:
        os.kill(int(file.read()), signal.SIGKILL)
    time.sleep(20)
    raise SystemExit("it lives on after hvdrun")


def main():
    program, left = sys.argv[1], int(sys.argv[2])
    own_commit = hvd.elastic.State.commit

    def commit(state):
        nonlocal left
        own_commit(state)
        left -= 1
        if left == 0 and hvd.rank() == 0:
            kill_launcher()

    hvd.elastic.State.commit = commit
    sys.path.insert(0, os.path.dirname(program))
    sys.argv = [program] + sys.argv[3:]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
