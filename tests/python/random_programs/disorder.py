"""Steps that are not in order: refused calls, disagreements, joins, signals, a job that ends and
begins again."""
import signal

import numpy as np

import hvd
from random_programs import reference
from random_programs.cases import Case
from random_programs.checks import Wrong, compare
from random_programs.steps import Task, draw_set, run_all


class Signals:
    """Within it a handled signal interrupts this rank all the time."""

    def __init__(self, wanted):
        self._wanted = wanted

    def __enter__(self):
        if self._wanted:
            self._previous = signal.signal(signal.SIGALRM, lambda *_: None)
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)

    def __exit__(self, *_):
        if self._wanted:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous)


class Interrupt(Exception):
    """What the handler of Interrupts raises."""


class Interrupts:
    """Within it a handled signal raises an exception at any place of this rank's Python."""

    def __enter__(self):
        self._previous = signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)

    @classmethod
    def _raise(cls, _, frame):
        while frame is not None:
            if frame.f_code in (cls.__enter__.__code__, cls.__exit__.__code__):
                return
            frame = frame.f_back
        raise Interrupt()

    def __exit__(self, kind, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._previous)
        return kind is Interrupt


class InterruptedWaits:
    """Operations in flight, for which the program waits again and again until no exception of a
    signal handler comes out of the wait."""

    def __init__(self, rng, plan):
        self.count, self.length = rng.choice((10, 40)), rng.choice((1, 1000, 100000))
        self.name = "i%d" % rng.randrange(1 << 30)

    def run(self, world):
        handles = [
            hvd.allreduce_async(
                np.full(self.length, world.rank + i), hvd.Sum, "%s.%d" % (self.name, i)
            )
            for i in range(self.count)
        ]
        results = [None] * self.count
        for i, handle in enumerate(handles):
            while results[i] is None:
                with Interrupts():
                    results[i] = handle.wait()
        for i, result in enumerate(results):
            total = world.size * i + sum(range(world.size))
            compare([result], [np.full(self.length, total)], 0, "operation %d" % i)

    def __str__(self):
        return "%d waits for %d elements, interrupted" % (self.count, self.length)


class InterruptedSubmissions:
    """Submissions out of which exceptions of a signal handler come, so that ranks have not
    submitted the same; then all leave the job, and nobody's memory was written."""

    def __init__(self, rng, plan):
        self.count, self.length = rng.choice((50, 300)), rng.choice((1, 1000))
        self.name = "s%d" % rng.randrange(1 << 30)
        self.restart = Restart(rng, plan)
        self.restart.pending = 0

    def run(self, world):
        others = []
        for i in range(self.count):
            with Interrupts():
                name = "%s.%d" % (self.name, i)
                hvd.allreduce_async(np.full(self.length, 1.0), hvd.Sum, name)
            others.append(np.full(self.length, -5.0))
        hvd.barrier()  # nobody submits any more
        self.restart.leave_and_enter(world)
        if any((each != -5.0).any() for each in others):
            raise Wrong("memory of another array was written")

    def __str__(self):
        return "%d submissions of %d elements, interrupted" % (self.count, self.length)


# ---- Refusals -----------------------------------------------------------------------------------

# What hvd refuses at once, whatever the others do: arguments of allreduce.
_MISTAKES = (
    ("a complex type", lambda: (np.zeros(3, "complex64"),), {}),
    ("an unknown op", lambda: (np.zeros(3, "float32"),), {"op": 17}),
    ("a factor that is no number", lambda: (np.zeros(2, "float32"),), {"prescale": float("nan")}),
    ("an op that is no number", lambda: (np.zeros(2),), {"op": "sum"}),
    ("the average of bools", lambda: (np.zeros(2, bool),), {"op": hvd.Average}),
    ("an out of another shape", lambda: (np.zeros(2),), {"out": np.zeros(3)}),
    ("an empty name", lambda: (np.zeros(2),), {"name": ""}),
    ("a set that does not exist", lambda: (np.zeros(2),), {"process_set": 4711}),
)
# And what hvd.torch refuses.
_MISTAKES_OF_TORCH = (
    ("a complex type", lambda: (_torch().zeros(3, dtype=_torch().complex64),), {}),
    ("an unknown op", lambda: (_torch().zeros(3),), {"op": 17}),
    ("a factor that is no number", lambda: (_torch().zeros(2),), {"prescale_factor": float("nan")}),
    ("the average of bools", lambda: (_torch().zeros(2, dtype=bool),), {"op": hvd.Average}),
)


def _torch():
    import torch

    return torch


class Refused:
    """A call that some ranks make and that is refused there; then right ones on all ranks."""

    def __init__(self, rng, plan):
        self.ranks = rng.choice((plan.sets[0], [rng.randrange(plan.size)]))
        self.face = rng.choice([each for each in plan.faces if plan.about(each).named])
        mistakes = _MISTAKES if self.face == "hvd" else _MISTAKES_OF_TORCH
        self.what, self.tensors, self.arguments = rng.choice(mistakes)
        self.times = rng.choice((1, 1, 3))
        named = rng.random() < 0.5
        self.name = "refused" if named else None
        self.next = Task(rng, plan, rng.choice(plan.faces), named)

    def run(self, world):
        if world.rank in self.ranks:
            for _ in range(self.times):
                self._make_mistake(world)
        run_all([self.next.start(world, world.local(str(self.next)))])

    def _make_mistake(self, world):
        arguments = dict({"name": self.name}, **self.arguments)
        face = world.faces[self.face].hvd
        call = world.local(self.what).choice((face.allreduce, face.allreduce_async))
        try:
            call(*self.tensors(), **arguments)
        except hvd.HvdError:
            return
        raise Wrong("%s was accepted" % self.what)

    def __str__(self):
        words = self.ranks, self.face, self.what, self.next
        return "refused on ranks %s: %s: %s; then %s" % words


class Mismatch:
    """A call in which one rank says something else: an error on all members, and the same name is
    good again."""

    def __init__(self, rng, plan):
        self.set = draw_set(rng, plan)
        self.odd = rng.choice(plan.sets[self.set])
        self.what = rng.choice(("shape", "type", "op", "root", "factor", "kind"))
        self.name = "m%d" % rng.randrange(1 << 30)
        self.times = rng.choice((1, 2))
        self.members = plan.sets[self.set]

    def run(self, world):
        if not world.is_member(self.set):
            return
        odd = world.rank == self.odd
        for _ in range(self.times):
            if len(self.members) > 1:
                self._disagree(odd, world.sets[self.set])
            found = hvd.allreduce(
                np.full(3, world.rank + 1.0), hvd.Sum, self.name, process_set=world.sets[self.set]
            )
            compare([found], [np.full(3, sum(self.members) + len(self.members) + 0.0)])

    def _disagree(self, odd, process_set):
        array = np.ones(4 if odd and self.what == "shape" else 3)
        where = {"name": self.name, "process_set": process_set}
        try:
            if self.what == "type":
                array = array.astype("float32" if odd else "float64")
            if self.what == "root":
                hvd.broadcast(array, self.members[1 if odd else 0], **where)
            elif self.what == "kind" and odd:
                hvd.allgather(array, **where)
            elif self.what == "factor":
                hvd.allreduce(array, prescale=2 if odd else 1, **where)
            else:
                hvd.allreduce(array, hvd.Max if odd and self.what == "op" else hvd.Sum, **where)
        except hvd.MismatchError:
            return
        raise Wrong("another %s on rank %d was accepted" % (self.what, self.odd))

    def __str__(self):
        return "mismatch: %s on rank %d of %s" % (self.what, self.odd, self.members)


# ---- Joins --------------------------------------------------------------------------------------


class Joined:
    """Ranks make different numbers of allreduces, and join."""

    def __init__(self, rng, plan):
        self.set = draw_set(rng, plan)
        self.members = plan.sets[self.set]
        self.counts = [rng.choice((0, 1, 2, 5)) for _ in self.members]
        self.cases = []
        for _ in range(max(self.counts)):
            case = Case(rng, self.members, ("allreduce",), ("float32", "int32", "float16"))
            case.op, case.wire = rng.choice(("sum", "average")), None
            self.cases.append(case)
        named = rng.random() < 0.5
        self.name = "j%d" % rng.randrange(1 << 30) if named else None
        self.face = rng.choice([each for each in plan.faces if plan.about(each).named])

    def run(self, world):
        if not world.is_member(self.set):
            return
        member = world.member(self.set)
        face = world.faces[self.face]
        for i, case in enumerate(self.cases[: self.counts[member]]):
            name = None if self.name is None else "%s.%d" % (self.name, i)
            where = face.set_argument(world, self.set)
            finish = face.start(case, member, world.local(str(case)), where, name)
            compare(finish(), self._expected(i, case), 0, "before join, " + str(case))
        last = hvd.join(world.sets[self.set])
        most = [m for m, n in zip(self.members, self.counts) if n == max(self.counts)]
        if last not in most:
            raise Wrong("rank %d joined last, expected one of %s" % (last, most))

    def _expected(self, i, case):
        """Of those that have not joined; an average counts all."""
        there = [m for m, count in enumerate(self.counts) if count > i]
        inputs = [case.inputs(each) for each in there]
        return [
            reference.reduced(
                case.op, dtype, [of[k] for of in inputs], case.factors, len(self.members)
            )
            for k, dtype in enumerate(case.dtypes)
        ]

    def __str__(self):
        return "join after %s of %s" % (self.counts, "; ".join(map(str, self.cases)))


# ---- The job ends and begins --------------------------------------------------------------------


class Restart:
    """All ranks leave the job, while operations may be pending, and enter it again; between these
    some of them may be a job of their own."""

    def __init__(self, rng, plan):
        self.pending = rng.choice((0, 0, 3))
        self.odd = rng.randrange(plan.size)
        self.parts = None
        if plan.size > 1 and rng.random() < 0.5:
            ranks = list(range(plan.size))
            rng.shuffle(ranks)
            cut = rng.randint(1, plan.size - 1)
            self.parts = sorted(ranks[:cut]), sorted(ranks[cut:])
        self.name = "p%d" % rng.randrange(1 << 30)

    def run(self, world):
        hvd.barrier()  # nothing that others wait for is in flight
        arrays = [np.full(1000, world.rank + 1.0) for _ in range(self.pending)]
        handles = []
        try:
            for i, each in enumerate(arrays if world.rank != self.odd else []):
                name = "%s.%d" % (self.name, i)
                handles.append(hvd.allreduce_async(each, hvd.Sum, name, out=each))
        except hvd.ShutdownError:
            pass  # the odd rank has left already
        self.leave_and_enter(world, handles)

    def leave_and_enter(self, world, handles=()):
        world.leave()
        for each in handles:
            try:
                each.wait()
            except hvd.ShutdownError:
                continue
            raise Wrong("an operation that one rank did not submit is done")
        if self.parts is not None:
            self._apart(world)
        world.open()

    def _apart(self, world):
        own = next(each for each in self.parts if world.rank in each)
        hvd.init(own)
        if (hvd.rank(), hvd.size()) != (own.index(world.rank), len(own)):
            raise Wrong("in a job of %s: rank %d of %d" % (own, hvd.rank(), hvd.size()))
        for _ in range(3):
            found = hvd.allreduce(np.full(5, world.rank + 1), hvd.Sum)
            compare([found], [np.full(5, sum(own) + len(own))])
        hvd.shutdown()

    def __str__(self):
        return "restart with %d pending but on rank %d, parts %s" % (
            self.pending, self.odd, self.parts,
        )  # fmt: skip
