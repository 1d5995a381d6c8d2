"""A step in which a sparse embedding is trained by hvd.torch.DistributedOptimizer."""
from random_programs import elements
from random_programs.checks import compare
from random_programs.steps import draw_set

_OPTIMIZERS = (("SparseAdam", {"lr": 0.125}), ("SGD", {"lr": 0.5}), ("Adagrad", {"lr": 0.125}))


class Embeddings:
    """Some steps of training, after each of which the table is that of a plain optimizer that has
    the rows of all ranks."""

    def __init__(self, rng, plan):
        self.set, self.number = draw_set(rng, plan), rng.randrange(1 << 30)
        self.members = plan.sets[self.set]
        self.rows, self.width = rng.choice((1, 4, 50)), rng.choice((1, 3, 64))
        self.kind, self.options = rng.choice(_OPTIMIZERS)
        # of three the reference would have other roundings, which Adagrad turns into steps
        self.average = rng.random() < 0.5 and len(self.members) != 3
        self.as_dense = rng.random() < 0.3
        self.epochs = rng.randint(1, 4)
        self.to_none = rng.random() < 0.5

    def batch(self, epoch, rank):
        """The rows that a rank looks up, some of them several times, and the weight of each."""
        rng = elements.stream(self.number, epoch, rank)
        return [(rng.randrange(self.rows), rng.randint(-3, 3)) for _ in range(rng.randint(1, 6))]

    def run(self, world):
        if not world.is_member(self.set):
            return
        import torch

        face = world.faces["hvd.torch"]
        hvd, where = face.hvd, face.set_argument(world, self.set)
        own, plain = (self._table(torch, each) for each in (world.rank, self.members[0]))
        make = getattr(torch.optim, self.kind)
        wrapped = hvd.DistributedOptimizer(
            make(list(own.parameters()), **self.options),
            [("%d.table" % self.number, own.weight)],
            op=hvd.Average if self.average else hvd.Sum,
            sparse_as_dense=self.as_dense,
            process_set=where,
        )
        hvd.broadcast_parameters({"%d" % self.number: own.weight}, self.members[0], where)
        optimizer = make(list(plain.parameters()), **self.options)
        for epoch in range(self.epochs):
            wrapped.zero_grad(set_to_none=self.to_none)
            self._loss(torch, own, [(self.batch(epoch, world.rank), 1)]).backward()
            wrapped.step()
            optimizer.zero_grad()
            share = 1 / len(self.members) if self.average else 1
            batches = [(self.batch(epoch, each), share) for each in self.members]
            self._loss(torch, plain, batches).backward()
            optimizer.step()
            found, wanted = (each.weight.detach().numpy() for each in (own, plain))
            compare([found], [wanted], 1e-5, "the table after step %d" % epoch)

    def _table(self, torch, rank):
        shape = self.rows, self.width
        values = elements.values("small", "float32", shape, False, rank, self.number)
        return torch.nn.Embedding.from_pretrained(torch.from_numpy(values), False, sparse=True)

    @staticmethod
    def _loss(torch, table, batches):
        parts = []
        for batch, factor in batches:
            rows, weights = zip(*batch)
            found = table(torch.tensor(rows)).sum(1)
            parts.append((found * torch.tensor(weights)).sum() * factor)
        return sum(parts)

    def __str__(self):
        return "embedding %dx%d among %s: %s, average %s, as dense %s, %d steps" % (
            self.rows, self.width, self.members, self.kind, self.average, self.as_dense,
            self.epochs,
        )  # fmt: skip
