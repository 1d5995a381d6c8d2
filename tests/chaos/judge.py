"""Whether a job ended as it must after the faults that hit it: right, or in time and with the first cause named."""

import re
import signal

from job import PHASES
from strike import SHORTAGES, SIGNALS, is_own

RANK_LOST = "-8"
TIMEOUT = "-7"
TOLD = re.compile(r"worker: rank (\d+): told (-?\d+): (.*)")
# a rank that waits inside MPI_Init can be told nothing: hvd writes why, and ends it
ENDED_IN_START = re.compile(r"error: job: MPI's start cannot be given up; ending this process")
REFERS = re.compile(r"the job cannot start: rank (\d+) \([^)]*\) says why")
LOST = re.compile(r"rank (\d+) \([^)]*\) was lost")
PARTS = {"reaper": "the reaper", "server": "the PMIx server"}
LIMIT_WORDS = {
    "files": r"ulimit -n|descriptor|Too many open files",
    "memory": r"ulimit -v|emory|cannot be started|could not be started|cannot start|failed to map segment",
    "size": r"ulimit -f|[Ff]ile size|too large|SIGXFSZ|signal 25",
    "full": r"No space left",
    "shm": r"No space left|not enough space",  # the latter of Open MPI
}


class Outcome:
    """What became of a job."""

    def __init__(self, case, job, struck, seconds, allowed, left):
        self.case = case
        self.statuses = job.statuses()
        self.output = job.output()
        self.struck = struck  # fault: (time, progress when it hit)
        self.progress = job.progress()
        self.seconds = seconds  # from the first strike to the end; None: it did not end in time
        self.allowed = allowed  # seconds for a job that cannot start
        self.left = left
        self.running = [] if seconds is not None else [f"{one.name} {one.pid} {one.state}" for one in job.processes_left()]
        self.broken_traces = job.broken_traces()
        # Open MPI 4.1: once all ranks have ended, PMIx_server_finalize may wait for ever for a lock of a thread that has ended,
        # or crash, and then mpirun leaves its folder
        self.mpirun_stuck = False
        if "(PMIx_server_finalize" in self.output and "mpirun" in self.output:
            self.left = [what for what in left if not what.startswith("file ompi.")]

    def hit(self, fault):
        """Did this fault hit while the job ran?"""
        if is_own(fault):
            return self.progress[fault.target].phase != PHASES.index("over")
        return fault.when == "begin" or str(fault) in self.struck

    def late(self, fault):
        """Did it hit a rank that was leaving, so that the job may as well end right?"""
        if str(fault) not in self.struck:
            return False
        ranks = self.struck[str(fault)][1]
        if isinstance(fault.target, int):
            ranks = [ranks[fault.target]]
        return any(rank.phase >= PHASES.index("leave") for rank in ranks)

    def during_start(self, fault):
        """Did it hit before all ranks had started?"""
        if str(fault) not in self.struck:
            return False
        return any(rank.phase <= PHASES.index("start") for rank in self.struck[str(fault)][1])


def is_harmless(fault):
    return fault.kind() in ("pause", "delay") or fault.what == "loss5"


def is_survivable(fault):
    """May a job come to its end in spite of it?"""
    return fault.kind() in SHORTAGES or fault.what == "loss30" or fault.target == "server"


def last_line(outcome):
    lines = [line for line in outcome.output.splitlines() if line.startswith(("hvdrun: ", "hvd: "))]
    return lines[-1] if lines else ""


def blamed_rank(outcome, fault):
    """What is wrong where a rank was killed or left early."""
    rank, faults = fault.target, []
    line = last_line(outcome)
    told = TOLD.findall(outcome.output)
    if fault.what == "exit0":
        # to hvdrun it has finished; the ranks know better
        if outcome.statuses[0] == 0 or not told:
            faults.append(f"hvdrun's status is {outcome.statuses[0]}, and {len(told)} ranks were told why")
    elif not outcome.case.nodes:
        number = int(SIGNALS.get(fault.kind(), 0))
        did = f"killed by {signal.Signals(number).name}" if number else "exited with status 3"
        if not re.search(rf"rank {rank} \([^)]*\) failed first: {re.escape(did)}", line):
            faults.append(f"hvdrun's last line does not say: rank {rank} {did}")
        if outcome.statuses != [128 + number if number else 3]:
            faults.append(f"hvdrun's status is {outcome.statuses[0]}")
    names = re.compile(rf"\brank {rank}\b")
    strangers = [entry for entry in told if not (entry[1] == RANK_LOST and names.search(entry[2]))]
    if outcome.during_start(fault) and any(names.search(entry[2]) for entry in told):
        strangers = []  # those that came later may have found only that the start had failed
    for teller, status, sentence in strangers:
        faults.append(f"rank {teller} was told {status} {sentence!r}, and rank {rank} was lost")
    others = set(LOST.findall(outcome.output)) - {str(rank)}
    if others:
        faults.append(f"said to be lost: ranks {', '.join(sorted(others))}; it was rank {rank}")
    return faults


def names_stopped(outcome, fault):
    """Does a sentence name the rank, other than as the one that speaks?"""
    said = re.sub(r"worker: rank \d+|rank \d+ \(\S+\) (warn|error):", "", outcome.output)
    return re.search(rf"\brank {fault.target}\b|\branks [\d, -]*\b{fault.target}\b", said) is not None


def blamed_stopped(outcome, fault):
    """What is wrong where a rank stands still for ever."""
    told = TOLD.findall(outcome.output)
    if all(status == 0 for status in outcome.statuses):
        return ["all statuses are 0"]
    if not told and not ENDED_IN_START.search(outcome.output):
        return ["no rank was told why"]
    return [] if names_stopped(outcome, fault) else [f"nobody names rank {fault.target}"]


def blamed_part(outcome, fault):
    """What is wrong where hvdrun or a process of its own was killed."""
    number = int(SIGNALS[fault.kind()])
    line = last_line(outcome)
    if fault.target == "hvdrun":
        if fault.kind() == "term":
            right = outcome.statuses == [128 + number] and "interrupted by SIGTERM" in line
            return [] if right else [f"status {outcome.statuses[0]}, and not: interrupted by SIGTERM"]
        return [] if outcome.statuses == [-number] else [f"hvdrun's status is {outcome.statuses[0]}"]
    if outcome.statuses[0] == 0:
        return ["hvdrun's status is 0"]
    return [] if PARTS[fault.target] in line else [f"hvdrun's last line does not name {PARTS[fault.target]}"]


def own_sentences(told):
    """What ranks were told, without those that were referred to a rank that was told itself."""
    tellers = {teller for teller, _, sentence in told if not REFERS.match(sentence)}
    return [entry for entry in told if not (REFERS.match(entry[2]) and REFERS.match(entry[2]).group(1) in tellers)]


def blamed_link(outcome, fault):
    """What is wrong where a node could no longer be reached, in time or at all: each rank that speaks must name another
    node, and its own ranks those of the others."""
    told = TOLD.findall(outcome.output)
    faults = [] if told else ["no rank was told why"]
    lost = int(fault.target.removeprefix("node"))
    for teller, status, sentence in own_sentences(told):
        own = outcome.case.node_of(int(teller))
        lists = re.findall(r"\branks? (\d+(?:, \d+)*)", sentence)
        nodes = {outcome.case.node_of(int(rank)) for text in lists for rank in text.split(", ") if int(rank) < outcome.case.size}
        nodes |= {int(number) for number in re.findall(r"\bn(\d)\b", sentence)}  # by the name of its host
        if status not in (RANK_LOST, TIMEOUT) or not (nodes - {own} if own == lost else lost in nodes):
            faults.append(f"rank {teller} on node {own} was told {status} {sentence!r}, and node {lost} was cut off")
    return faults


def blamed_limit(outcome, fault):
    """What is wrong where something was short."""
    words = LIMIT_WORDS[fault.kind()]
    faults = []
    if not re.search(words, outcome.output):
        faults.append(f"no sentence has one of: {words}")
    if outcome.seconds > outcome.allowed:
        faults.append(f"the end came after {outcome.seconds:.1f} s, and should after {outcome.allowed:.1f} s")
    own = re.findall(r"^(?:hvd|hvdrun:|worker:) ", outcome.output, re.M)
    if len(own) > 4 * outcome.case.size + 4:
        faults.append(f"{len(own)} lines were written")
    return faults


def blame(outcome, fault):
    if fault.kind() in SHORTAGES:
        return blamed_limit(outcome, fault)
    if fault.kind() == "stop":
        return blamed_stopped(outcome, fault)
    if fault.target.startswith("node") if isinstance(fault.target, str) else False:
        return blamed_link(outcome, fault)
    if isinstance(fault.target, int):
        return blamed_rank(outcome, fault)
    return blamed_part(outcome, fault)


def is_let_stand(outcome):
    """A rank that stands still when all others have left is nobody's concern but its launcher's."""
    return sum(rank.phase != PHASES.index("over") for rank in outcome.progress) <= 1


def never_ended(outcome):
    phases = ", ".join(f"{rank} in {PHASES[now.phase]}" for rank, now in enumerate(outcome.progress))
    return f"it did not end in time; rank {phases}; still there: {', '.join(outcome.running)}"


def is_right(outcome):
    succeeded = outcome.mpirun_stuck or all(status == 0 for status in outcome.statuses)
    return succeeded and all(rank.phase == PHASES.index("over") for rank in outcome.progress)


def judge(outcome):
    """Sentences that say what is not as it must be; none if all is well."""
    faults = [f"left: {what}" for what in outcome.left]
    if "property: " in outcome.output:
        faults.append("a result is wrong")
    if re.search("Sanitizer|runtime error:", outcome.output):
        faults.append("a sanitizer reports")
    if outcome.seconds is None:
        late = [fault for fault in outcome.case.faults if fault.kind() == "stop" and outcome.late(fault)]
        return faults + ([] if late and is_let_stand(outcome) else [never_ended(outcome)])
    hits = [fault for fault in outcome.case.faults if outcome.hit(fault) and not is_harmless(fault)]
    if is_right(outcome):
        sure = [f for f in hits if not is_survivable(f) and not outcome.late(f)]
        faults += [f"it ended right, and {sentence}" for sentence in outcome.broken_traces]
        return faults + [f"it ended right, although {fault} hit" for fault in sure]
    if not hits:
        return faults + [f"nothing hit it, and the statuses are {outcome.statuses}"]
    if not outcome.output and not any(fault.target == "hvdrun" for fault in hits):
        faults.append(f"not a word, and the statuses are {outcome.statuses}")
    # of two faults either may have been the first
    reports = [blame(outcome, fault) for fault in hits]
    return faults + min(reports, key=len)
