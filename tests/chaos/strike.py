"""Faults: what the launcher is wrapped in for those of the beginning, and hitting a job that runs with the others."""

import os
import signal
import time

from job import KINDS, PHASES

SIGNALS = {"kill": signal.SIGKILL, "segv": signal.SIGSEGV, "term": signal.SIGTERM}
OWN = {"kill": "9", "segv": "11", "exit0": "x0", "exit3": "x3"}
LIMITS = {"files": "-n", "memory": "-v", "size": "-f"}  # of bash's ulimit
SHORTAGES = ("full", "shm") + tuple(LIMITS)
START_SECONDS = 30  # within which the moment of a fault comes, or the job ends


def is_own(fault):
    return fault.when.startswith("op:")


def own_strike(case):
    """The argument STRIKE of worker.c."""
    for fault in case.faults:
        if is_own(fault):
            _, operation, where = fault.when.split(":")
            return [f"{fault.target}:{operation}:{where}:{OWN[fault.what]}"]
    return []


def limit_of(fault):
    number = fault.number() * 1024 if fault.kind() == "memory" else fault.number()
    return f"ulimit {LIMITS[fault.kind()]} {number}"


def limited(case, command, per_rank):
    """The command under the limits of all ranks, launcher included, or of single ranks."""
    for fault in sorted(case.faults, key=lambda fault: fault.number()):  # a process cannot raise a limit that was lowered
        if fault.kind() not in LIMITS or isinstance(fault.target, int) != per_rank:
            continue
        test = f'[ "${{PMIX_RANK-$RANK}}" != {fault.target} ] || ' if per_rank else ""
        command = ["bash", "-c", f'{test}{limit_of(fault)} && exec "$@" || exit 125', "bash"] + command
        if per_rank:
            command[2] = f'if {test[:-4].replace("!=", "=")}; then {limit_of(fault)}; fi; exec "$@"'
    return command


class Striker:
    """Hits a job with the faults of a case, each once, when its moment has come."""

    def __init__(self, case, job, network):
        self.job = job
        self.network = network
        self.waiting = [fault for fault in case.faults if fault.when != "begin" and not is_own(fault)]
        self.due = {}  # fault: when its moment came
        self.resume = []  # (time, pid)
        self.struck = {}  # fault: (time, progress of the ranks)

    def moment(self, fault):
        """Has the fault's moment come?"""
        phase, rest = fault.when.split(":")
        phase, _, kind = phase.partition("/")
        operations, _, milliseconds = rest.partition("+")
        ranks = self.job.progress()
        watched = ranks[fault.target if isinstance(fault.target, int) else 0]
        now = time.monotonic()
        if fault not in self.due:
            reached = watched.phase == PHASES.index(phase) and watched.operations >= int(operations)
            if kind and reached and watched.phase == PHASES.index("run"):
                reached = watched.kind == KINDS.index(kind)
            if not reached:
                return False
            self.due[fault] = now + int(milliseconds) / 1000
        return now >= self.due[fault]

    def hit(self, fault):
        if isinstance(fault.target, str) and fault.target.startswith("node"):
            self.network.hit(fault)
            return True
        pid = self.job.pid_of(fault.target)
        if pid is None:
            return False
        try:
            if fault.kind() in SIGNALS:
                os.kill(pid, SIGNALS[fault.kind()])
            else:
                os.kill(pid, signal.SIGSTOP)
                if fault.kind() == "pause":
                    self.resume.append((time.monotonic() + fault.number() / 1000, pid))
        except ProcessLookupError:
            pass
        return True

    def step(self):
        """Do what is due; to be called every millisecond or so."""
        now = time.monotonic()
        for fault in list(self.waiting):
            if self.moment(fault) and self.hit(fault):
                self.waiting.remove(fault)
                self.struck[str(fault)] = (time.monotonic(), self.job.progress())
        for when, pid in list(self.resume):
            if now >= when:
                self.resume.remove((when, pid))
                for process in self.job.stopped_with(pid):
                    try:
                        os.kill(process, signal.SIGCONT)
                    except ProcessLookupError:
                        pass
