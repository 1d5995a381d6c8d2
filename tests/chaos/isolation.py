"""Namespaces that nobody else uses, where they can be made: then all that is left of a job is seen."""

import os
import subprocess
import sys

DONE = "HVD_CHAOS_ISOLATED"
PREPARE = "mount -t tmpfs none /dev/shm && ip link set lo up"


def enter(program):
    """Run the program again in namespaces of its own. Returns whether it now is in some."""
    if DONE in os.environ:
        if os.environ[DONE] == "1":
            subprocess.run(PREPARE, shell=True, check=True)
        return os.environ[DONE] == "1"
    ways = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
    if os.getuid() != 0:
        ways[1:1] = ["--user", "--map-root-user"]
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    able = subprocess.run(ways + ["sh", "-c", PREPARE], stderr=subprocess.DEVNULL, check=False).returncode == 0
    os.environ[DONE] = str(int(able))
    again = (ways if able else []) + [sys.executable, os.path.abspath(program)] + sys.argv[1:]
    os.execvp(again[0], again)
