"""A batch of all ranks together that stays the same when ranks are lost or join."""
from typing import Iterator, List, Optional, Tuple

import torch.utils.data

from hvd.errors import InvalidError, as_int
from hvd.torch.elastic.sampler import ElasticSampler


class ConstantBatch(torch.utils.data.Sampler):
    """The batch_sampler of a DataLoader: each step of training takes the next [batch] samples of an
    ElasticSampler, however many ranks there are, and each rank its share of them, in passes of at
    most [largest] samples.

        batches = hvd.elastic.ConstantBatch(sampler, batch=60, largest=16)
        loader = DataLoader(data, batch_sampler=batches)
        optimizer.set_backward_passes_per_step(batches.passes)
        for i, (inputs, targets) in enumerate(loader):
            (mean_loss(model(inputs), targets) * batches.weight(i)).backward()
            if batches.ends_step(i):
                optimizer.step()
                optimizer.zero_grad()
                batches.record(i)

    When ranks have changed, set the passes and make the iterator of the loader again; so do it in
    the function that run calls. A pass has the mean loss of its own samples, and
    DistributedOptimizer averages over the ranks, so weight(i) is the pass's number of samples times
    the ranks, divided by the samples of the step: then the gradients are those of the mean over the
    whole step, up to rounding. All ranks make equally many passes in a step. One that has no sample
    for a pass, as in the last step of an epoch, which may be smaller, repeats one with weight 0.
    What looks at all samples of a pass, such as BatchNorm, still sees the passes."""

    def __init__(self, sampler: ElasticSampler, batch: int, largest: Optional[int] = None):
        self.sampler, self.batch = sampler, as_int("batch", batch)
        self.largest = self.batch if largest is None else as_int("largest", largest)
        if self.batch < 1 or self.largest < 1:
            raise InvalidError("batch=%r, largest=%r: expected 1 or more" % (batch, largest))

    @property
    def passes(self) -> int:
        """Of forward and backward in each step, on each of the ranks that there are now."""
        share = -(-self.batch // self.sampler.num_replicas)
        return -(-share // self.largest)

    def __len__(self) -> int:
        return -(-len(self.sampler.remaining_indices) // self.batch) * self.passes

    def __iter__(self) -> Iterator[List[int]]:
        for i in range(len(self)):
            step, mine = self._pass(i)
            yield mine or step[:1]

    def _pass(self, i: int) -> Tuple[List[int], List[int]]:
        """The samples of the step to which pass [i] belongs, and those of this rank in the pass."""
        number, within = divmod(i, self.passes)
        begin = number * self.batch
        step = self.sampler.remaining_indices[begin : begin + self.batch]
        share = step[self.sampler.rank :: self.sampler.num_replicas]
        return step, share[within :: self.passes]

    def weight(self, i: int) -> float:
        """By what the mean loss of pass [i], which counts from 0 in each epoch, is multiplied."""
        step, mine = self._pass(i)
        return len(mine) * self.sampler.num_replicas / len(step)

    def ends_step(self, i: int) -> bool:
        """Is pass [i] the last of its step?"""
        return (i + 1) % self.passes == 0

    def record(self, i: int) -> None:
        """The step that pass [i] ends is done on all ranks: in place of the sampler's
        record_batch."""
        if not self.ends_step(i):
            raise InvalidError("record: pass %d ends no step of %d passes" % (i, self.passes))
        self.sampler.record_samples(len(self._pass(i)[0]))
