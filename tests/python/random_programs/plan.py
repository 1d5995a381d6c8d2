"""A program as its seed draws it: process sets, faces, signals and steps, alike on all ranks."""
from random_programs import (
    adasum, data_parallel, disorder, elements, embeddings, face_numpy, gradients, normalization,
    steps, training,
)  # fmt: skip

# Each kind of step, and how often it is drawn.
STEPS = (
    (steps.One, 8),
    (steps.Unnamed, 3),
    (steps.Shuffled, 4),
    (steps.Threads, 2),
    (steps.Objects, 2),
    (disorder.Refused, 3),
    (disorder.Mismatch, 2),
    (disorder.Joined, 2),
    (disorder.Restart, 1),
    (disorder.InterruptedWaits, 1),
    (disorder.InterruptedSubmissions, 1),
)
# those of one face
OF_FACE = {
    "hvd.torch": (
        (training.Training, 3),
        (adasum.Adasum, 1),
        (gradients.Gradients, 3),
        (normalization.Normalization, 1),
        (embeddings.Embeddings, 1),
    ),
    "torch.distributed": ((data_parallel.DataParallel, 2),),
}


class Plan:
    """What a program does."""

    def __init__(self, seed, size, faces):
        self.seed, self.size = seed, size
        rng = elements.stream(seed, "plan")
        self.faces = sorted(rng.sample(faces, min(len(faces), rng.randint(1, 3))))
        if self.faces == ["torch.distributed"]:
            self.faces.append("hvd")  # some steps need names
        self.sets = [list(range(size))] + self._draw_sets(rng)
        self.signals = rng.random() < 0.25
        possible = STEPS
        for each in self.faces:
            possible += OF_FACE.get(each, ())
        kinds, weights = zip(*possible)
        chosen = rng.choices(kinds, weights, k=rng.randint(3, 12))
        self.steps = [kind(elements.stream(seed, "step", i), self) for i, kind in enumerate(chosen)]

    def _draw_sets(self, rng):
        """Other sets than that of all ranks, without one twice."""
        found = []
        for _ in range(rng.randint(0, 2)):
            ranks = sorted(rng.sample(range(self.size), rng.randint(1, self.size)))
            if len(ranks) < self.size and ranks not in found:
                found.append(ranks)
        return found

    @staticmethod
    def about(face):
        """The class of a face."""
        if face == "hvd":
            return face_numpy.Face
        if face == "torch.distributed":
            from random_programs import face_distributed

            return face_distributed.Face
        from random_programs import face_torch

        return face_torch.Face
