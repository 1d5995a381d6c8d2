"""Steps that carry out collectives: alone, many in flight, in threads. A step is drawn alike on all
ranks; run() then makes this rank's part of it."""
import threading

from random_programs import reference
from random_programs.cases import Case
from random_programs.checks import Wrong, compare


def draw_set(rng, plan):
    """Mostly all ranks."""
    return 0 if rng.random() < 0.6 else rng.randrange(len(plan.sets))


class Task:
    """One case, on one face, in one set. [blocking]: may the call wait?"""

    def __init__(self, rng, plan, face, named, blocking=True):
        self.face, self.set = face, draw_set(rng, plan)
        about = plan.about(face)
        self.case = Case(rng, plan.sets[self.set], about.kinds, about.types)
        about.adapt(self.case)
        self.blocking = blocking
        if not blocking:
            self.case.wire = None  # with which hvd.torch has no asynchronous form
        self.name = "n%d" % rng.randrange(1 << 30) if named else None

    def start(self, world, local):
        """Submit it; returns what waits and checks, or None where this rank is no member."""
        if not world.is_member(self.set):
            return None
        member = world.member(self.set)
        face = world.faces[self.face]
        blocks = self.blocking and local.random() < 0.5
        where = face.set_argument(world, self.set)
        wait = face.start(self.case, member, local, where, self.name, blocks)

        def finish():
            found = wait()
            if found is not None:
                wanted = reference.expected(self.case, member)
                compare(found, wanted, self.case.tolerance(), str(self))

        return finish

    def __str__(self):
        return "%s%s: %s" % (self.face, "" if self.name is None else " " + self.name, self.case)


def run_all(finishes):
    for finish in finishes:
        if finish is not None:
            finish()


class One:
    """A task alone."""

    def __init__(self, rng, plan):
        self.task = Task(rng, plan, rng.choice(plan.faces), rng.random() < 0.5)

    def run(self, world):
        run_all([self.task.start(world, world.local(str(self.task)))])

    def __str__(self):
        return str(self.task)


class Unnamed:
    """Tasks without names in flight together: all ranks submit them in the same order, and wait in
    their own."""

    def __init__(self, rng, plan):
        self.tasks = [
            Task(rng, plan, rng.choice(plan.faces), False) for _ in range(rng.randint(2, 6))
        ]

    def run(self, world):
        local = world.local("order", str(self.tasks[0]))
        finishes = [each.start(world, world.local(str(each))) for each in self.tasks]
        local.shuffle(finishes)
        run_all(finishes)

    def __str__(self):
        return "in flight without names: " + "; ".join(map(str, self.tasks))


class Shuffled:
    """Named tasks in flight together: each rank submits them in an order of its own, and waits in
    another."""

    def __init__(self, rng, plan):
        faces = [each for each in plan.faces if plan.about(each).named]
        count = rng.choice((2, 3, 5, 8, 20))
        self.tasks = [Task(rng, plan, rng.choice(faces), True, False) for _ in range(count)]

    def run(self, world):
        local = world.local("order", str(self.tasks[0]))
        tasks = local.sample(self.tasks, len(self.tasks))
        finishes = [each.start(world, world.local(str(each))) for each in tasks]
        local.shuffle(finishes)
        if local.random() < 0.2:
            finishes = finishes[::2]  # the handles of the others are dropped
        run_all(finishes)

    def __str__(self):
        return "in flight with names: " + "; ".join(map(str, self.tasks))


class Objects:
    """Python objects of one rank to all, and of all to all."""

    def __init__(self, rng, plan):
        self.set = draw_set(rng, plan)
        self.root = rng.choice(plan.sets[self.set])
        self.length = rng.choice((0, 1, 100, 70000))
        self.gather = rng.random() < 0.5
        self.name = rng.choice((None, "o%d" % rng.randrange(1 << 30)))
        self.face = rng.choice([each for each in plan.faces if plan.about(each).named])

    def _of(self, rank):
        return {"rank": rank, "text": "x" * (self.length + rank), "more": [None, (rank,)]}

    def run(self, world):
        if not world.is_member(self.set):
            return
        face = world.faces[self.face]
        hvd, where = face.hvd, face.set_argument(world, self.set)
        thing = self._of(world.rank)
        if self.gather:
            found = hvd.allgather_object(thing, name=self.name, process_set=where)
            wanted = [self._of(each) for each in world.plan.sets[self.set]]
        else:
            found = hvd.broadcast_object(thing, self.root, name=self.name, process_set=where)
            wanted = self._of(self.root)
        if found != wanted:
            raise Wrong("another object came than was sent")

    def __str__(self):
        what = "gathered" if self.gather else "of rank %d" % self.root
        return "objects %s, %d letters, on %s" % (what, self.length, self.face)


class Threads:
    """Lists of named tasks, each in a thread of its own."""

    def __init__(self, rng, plan):
        faces = [each for each in plan.faces if plan.about(each).named]
        self.lists = [
            [Task(rng, plan, rng.choice(faces), True) for _ in range(rng.randint(1, 3))]
            for _ in range(rng.randint(2, 4))
        ]

    def run(self, world):
        errors = []

        def work(tasks):
            try:
                for each in tasks:
                    run_all([each.start(world, world.local(str(each)))])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(each,)) for each in self.lists]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if errors:
            raise errors[0]

    def __str__(self):
        return "threads: " + " | ".join("; ".join(map(str, each)) for each in self.lists)
