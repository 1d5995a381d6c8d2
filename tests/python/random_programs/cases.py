"""A collective to be tried: its kind, types, shapes and inputs on all members, whatever carries it
out."""
from random_programs import elements

KINDS = ("allreduce",) * 4 + ("allgather", "broadcast", "alltoall", "reducescatter") * 2
GROUPED = ("allreduce", "allgather", "reducescatter")
OPS = ("sum", "sum", "sum", "average", "average", "min", "max", "product")
FACTORS = (1, 1, 1, 1, 0.5, 2, 3, -1)


class Case:
    """One collective of the members of a set, of one tensor or of a group."""

    def __init__(self, rng, members, kinds=KINDS, types=elements.TYPES):
        self.members = members
        self.seed = rng.randrange(1 << 40)
        self.kind = rng.choice(kinds)
        self.grouped = self.kind in GROUPED and rng.random() < 0.25
        self.op, self.factors, self.wire = "sum", (1, 1), None
        self.root = rng.randrange(len(members))
        self.dtypes = [rng.choice(types) for _ in range(rng.randint(1, 4) if self.grouped else 1)]
        if self.kind in ("allreduce", "reducescatter"):
            self._draw_reduction(rng)
        self.values = [elements.draw_values_kind(rng, each, self.op) for each in self.dtypes]
        if self.factors != (1, 1):
            self.values = ["small" if each == "whole" else each for each in self.values]
        scalar = 0 if self.kind in ("allreduce", "broadcast") else 1
        shapes = [elements.draw_shape(rng, scalar) for _ in self.dtypes]
        self.shapes = [self._of_members(rng, each) for each in shapes]
        self.splits = None
        if self.kind == "alltoall":
            self._draw_splits(rng, shapes[0])

    def _draw_reduction(self, rng):
        self.op = rng.choice(OPS)
        if rng.random() < 0.3:
            self.factors = (rng.choice(FACTORS), rng.choice(FACTORS))
        powers = self.kind == "allreduce" and len(self.members) in (1, 2, 4)
        floats = [each in ("float32", "float64") for each in self.dtypes]
        if powers and all(floats) and rng.random() < 0.3:
            self.op, self.factors = "adasum", (1, 1)
        if self.op == "average":
            self.dtypes = ["int32" if each == "bool" else each for each in self.dtypes]
        if set(self.dtypes) == {"float32"} and self.op in ("sum", "min", "max"):
            self.wire = rng.choice((None, None, "float16", "bfloat16"))

    def _of_members(self, rng, shape):
        """The shape on each member; gathered tensors may have other numbers of rows on each."""
        if self.kind != "allgather" or rng.random() < 0.3:
            return [shape] * len(self.members)
        return [(rng.choice((0, 1, 2, shape[0])),) + shape[1:] for _ in self.members]

    def _draw_splits(self, rng, shape):
        count = len(self.members)
        if rng.random() < 0.4:
            rows = shape[0] // count
            self.even = True
            self.splits = [[rows] * count] * count
        else:
            self.even = False
            most = max(1, min(shape[0], 40))
            self.splits = [[rng.randint(0, most) for _ in range(count)] for _ in range(count)]
        self.shapes = [[(sum(row),) + shape[1:] for row in self.splits]]

    def inputs(self, member):
        """The tensors of a member, as values."""
        return [
            elements.values(
                kind, dtype, self.shapes[i][member], self.op == "product", self.seed, member, i
            )
            for i, (kind, dtype) in enumerate(zip(self.values, self.dtypes))
        ]

    def tolerance(self):
        """Relative; all but Adasum is exact."""
        return 1e-5 if self.op == "adasum" else 0

    def __str__(self):
        words = ["grouped " * self.grouped + self.kind]
        words += ["%s%s" % (d, list(s) if len(set(s)) > 1 else list(s[0]))
                  for d, s in zip(self.dtypes, self.shapes)]  # fmt: skip
        if self.kind in ("allreduce", "reducescatter"):
            words += [self.op, "factors=%s,%s" % self.factors]
        if self.kind == "broadcast":
            words.append("root=%d" % self.members[self.root])
        if self.wire is not None:
            words.append("wire=" + self.wire)
        words.append("values=%s" % ",".join(self.values))
        return " ".join(words) + " among %s" % (self.members,)
