"""A case: one job and the faults that hit it, as one line of text. A seed chooses a case."""

import dataclasses
import random
import re

BACKENDS = ["auto", "shm", "tcp", "mpi"]
KINDS = ["allreduce", "broadcast", "allgather", "alltoall", "reducescatter", "barrier"]


@dataclasses.dataclass(unsafe_hash=True)
class Fault:
    """WHAT@TARGET@WHEN. WHAT: kill segv term exit0 exit3 stop pauseMS, filesN memoryMB sizeKB, fullKB shmKB (what is free
    on the disk of temporary files and traces, and in /dev/shm), cut oneway lossPERCENT delayMS. TARGET: a rank, hvdrun, reaper, server, all, or nodeN. WHEN: PHASE[/KIND]:OPERATIONS+MS, where the target or
    rank 0 is then; op:OPERATION:WHERE, where the rank does it to itself; or begin."""

    what: str
    target: object
    when: str

    def __str__(self):
        return f"{self.what}@{self.target}@{self.when}"

    @staticmethod
    def parse(text):
        what, target, when = text.split("@")
        return Fault(what, int(target) if target.isdigit() else target, when)

    def number(self):
        return int(re.sub(r"\D", "", self.what) or 0)

    def kind(self):
        return re.sub(r"\d+$", "", self.what)


@dataclasses.dataclass
class Case:
    seed: int  # of the operations
    size: int
    count: int  # operations, about
    large: int  # elements of a large tensor, about
    backends: str
    alloc: bool
    nodes: str  # ranks of each node, such as "2,1"; "" for hvdrun
    faults: list
    traces: bool = False  # the ranks write timelines and flight records
    fresh: bool = False  # no tensor has a name that was there before

    def __str__(self):
        words = [f"seed={self.seed}", f"size={self.size}", f"count={self.count}", f"large={self.large}"]
        words += [f"backends={self.backends}", f"alloc={int(self.alloc)}"]
        if self.nodes:
            words.append(f"nodes={self.nodes}")
        words += [f"{name}=1" for name in ("traces", "fresh") if getattr(self, name)]
        return " ".join(words + [f"fault={fault}" for fault in self.faults])

    @staticmethod
    def parse(line):
        case = Case(1, 2, 100, 100000, "auto", False, "", [])
        for word in line.split():
            name, value = word.split("=", 1)
            if name == "fault":
                case.faults.append(Fault.parse(value))
            elif name in ("alloc", "traces", "fresh"):
                setattr(case, name, value == "1")
            else:
                setattr(case, name, value if name in ("backends", "nodes") else int(value))
        return case

    def launcher(self):
        """hvdrun; network: the ranks are started on nodes of a network; mpirun: on nodes that are process namespaces."""
        if not self.nodes:
            return "hvdrun"
        return "mpirun" if "mpi" in self.backends else "network"

    def ranks_of_nodes(self):
        """The ranks of each node: "0,1 2"."""
        counts = [int(count) for count in self.nodes.split(",")]
        firsts = [sum(counts[:node]) for node in range(len(counts))]
        return " ".join(",".join(map(str, range(first, first + count))) for first, count in zip(firsts, counts))

    def node_of(self, rank):
        """The number of a rank's node, from 1."""
        for number, count in enumerate(self.nodes.split(","), 1):
            rank -= int(count)
            if rank < 0:
                return number
        raise ValueError(rank)


def choose_when(draw, count):
    """A moment of a job, for a fault from outside."""
    phase = draw.choices(["start", "sets", "run", "join", "leave"], [3, 2, 8, 2, 1])[0]
    after = draw.choice([0, draw.randrange(10), draw.randrange(count // 2)]) if phase in ("run", "sets", "join") else 0
    if phase == "run" and draw.random() < 0.7:
        phase += "/" + draw.choice(KINDS)
    return f"{phase}:{after}+{draw.choice([0, 0, 1, draw.randrange(30)])}"


def choose_process_fault(draw, size, count, kinds=("own", "rank", "part", "limit")):
    kind = draw.choices(kinds, [3, 5, 4, 2][: len(kinds)])[0]
    rank = draw.randrange(size)
    if kind == "own":
        what = draw.choice(["kill", "segv", "exit0", "exit3"])
        where = draw.choice(["before", "flight", "callback"])
        return Fault(what, rank, f"op:{draw.choice([draw.randrange(8), draw.randrange(count)])}:{where}")
    if kind == "rank":
        what = draw.choice(["kill", "kill", "segv", "stop", f"pause{draw.randrange(1, 1200)}"])
        return Fault(what, rank, choose_when(draw, count))
    if kind == "part":
        target = draw.choice(["hvdrun", "reaper", "server"])
        what = draw.choice(["kill", "kill", "kill", f"pause{draw.randrange(1, 1200)}"])
        if target == "hvdrun" and draw.random() < 0.3:
            what = "term"
        return Fault(what, target, choose_when(draw, count))
    limits = [f"files{draw.randrange(4, 80)}", f"memory{draw.randrange(8, 400)}", f"size{draw.choice([0, 1, 64, 1000])}"]
    what = draw.choice(limits + [f"{draw.choice(['full', 'shm'])}{draw.choice([0, 4, 64, 1000])}"])
    return Fault(what, "all" if re.match("full|shm", what) else draw.choice(["all", rank]), "begin")


def choose_link_fault(draw, nodes, count):
    what = draw.choice(["cut", "cut", "oneway", "loss30", "loss5", f"delay{draw.randrange(5, 50)}"])
    return Fault(what, f"node{draw.randrange(1, nodes + 1)}", choose_when(draw, count))


def choose_nodes(draw, size):
    first = draw.randrange(1, size)
    if size - first > 1 and draw.random() < 0.5:
        return f"{first},1,{size - first - 1}"
    return f"{first},{size - first}"


def choose(seed, networks):
    """The case of a seed, on one node, or on the nodes of a network."""
    draw = random.Random(seed * 2 + int(networks))
    size = draw.randrange(2, 7)
    count = draw.choice([60, 150, 300])
    case = Case(
        seed=seed,
        size=size,
        count=count,
        large=1000000 if count == 60 and size < 4 else draw.choice([1000, 100000]),
        backends=draw.choice(BACKENDS),
        alloc=draw.random() < 0.3,
        nodes="",
        faults=[],
    )
    if networks:
        case.count = min(count, 150)
        case.nodes = choose_nodes(draw, size)
        case.backends = draw.choice(["auto", "tcp", "hier-tcp,tcp"])
        case.faults.append(choose_link_fault(draw, case.nodes.count(",") + 1, count))
        if draw.random() < 0.3:
            case.faults.append(Fault(draw.choice(["kill", "pause500"]), draw.randrange(size), choose_when(draw, count)))
        return case
    case.faults.append(choose_process_fault(draw, size, count))
    if draw.random() < 0.2:
        case.faults.append(choose_process_fault(draw, size, count))
    if any(fault.kind() in ("memory", "files", "size") for fault in case.faults):
        case.alloc = False
    case.traces = draw.random() < 0.3 or any(fault.kind() == "full" for fault in case.faults)
    case.fresh = draw.random() < 0.2
    if draw.random() < 0.05:
        case.nodes, case.backends = choose_nodes(draw, size), "hier-mpi,mpi"
        case.faults = [choose_process_fault(draw, size, count, ("own", "rank"))]
    return case
