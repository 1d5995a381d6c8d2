"""What a program finds on a rank: the job, its process sets and its faces."""
import hvd
from random_programs import elements, face_numpy


class World:
    """The job as seen by one rank, while it runs one program."""

    def __init__(self, plan):
        self.plan = plan
        self.faces = {"hvd": face_numpy.Face()}
        self.sets = []

    def open(self):
        """Enter the job, and make the process sets of the plan."""
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()
        self.sets = [None] + [self._set_of(each) for each in range(1, len(self.plan.sets))]
        for name in self.plan.faces:
            if name not in self.faces:
                self.faces[name] = self._face(name)
        if "torch.distributed" in self.plan.faces:
            self.faces["torch.distributed"].open(self.plan.sets)

    @staticmethod
    def _face(name):
        if name == "torch.distributed":
            from random_programs import face_distributed

            return face_distributed.Face()
        from random_programs import face_torch

        return face_torch.Face(name)

    def _set_of(self, number):
        """Every second set is added by its members alone."""
        ranks, by_members = self.plan.sets[number], number % 2 == 1
        try:
            if not by_members or self.is_member(number):
                return hvd.add_process_set(ranks, by_members=by_members)
        except hvd.DuplicateError:  # a group of torch.distributed has made it, on all ranks
            pass
        made = hvd.ProcessSet(ranks)
        known = {tuple(hvd.process_set_ranks(each)): each for each in hvd.process_set_ids()}
        made.process_set_id = known.get(tuple(ranks))
        return made

    def close(self):
        """Remove what open made; the job goes on."""
        if "torch.distributed" in self.plan.faces:
            self.faces["torch.distributed"].close()
        for each in self.sets[1:]:
            hvd.remove_process_set(each)
        hvd.barrier()  # members may still be at it, and nobody leaves the job meanwhile

    def leave(self):
        """Leave the job, too."""
        if "torch.distributed" in self.plan.faces:
            self.faces["torch.distributed"].close()
        hvd.shutdown()

    def is_member(self, number):
        return self.rank in self.plan.sets[number]

    def member(self, number):
        """This rank's place in a set."""
        return self.plan.sets[number].index(self.rank)

    def local(self, *parts):
        """A random stream of this rank's own."""
        return elements.stream(self.plan.seed, "rank", self.rank, *parts)
