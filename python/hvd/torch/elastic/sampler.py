"""Which samples of a dataset are left in this epoch of training, and which of them are this
rank's."""
import random
from typing import Any, Dict, Iterable, Iterator, List, Set

import torch.utils.data

from hvd._job import is_initialized, rank, size
from hvd.errors import InvalidError


class ElasticSampler(torch.utils.data.Sampler):
    """A sampler that shares out the samples that are left when ranks are lost or join.

    After each step of training call record_batch; at the end of an epoch set_epoch, which begins
    the next. Give it to TorchState, by which all ranks know how many samples are done; reset()
    shares out the others among the ranks that there are now. Each sample comes once in an epoch;
    if the ranks' number does not divide those that are left, the first of these come twice. In an
    epoch [shuffle] gives all samples an order that [seed] and the epoch's number decide."""

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0  # of samples that are done, in the order of this epoch
        self.processed_indices: Set[int] = set()  # of samples that are done out of this order
        self.num_replicas, self.rank = 1, 0
        self.remaining_indices: List[int] = []
        self.num_samples = self.total_size = 0
        self._unrecorded = 0  # of this rank's samples, those that are not done
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch of training, with all samples. Call it at the end of an epoch: a loss in
        between does not repeat that then."""
        self.epoch, self.processed_num = epoch, 0
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Each rank has trained with its next [batch_size] samples, or with the rest if fewer were
        left. batch_idx is there for Horovod's scripts and ignored."""
        count = min(batch_size, self._unrecorded)
        self.record_samples(count * self.num_replicas)
        self._unrecorded -= count

    def record_samples(self, count: int) -> None:
        """All ranks together have trained with the next [count] samples, or with the rest if fewer
        were left."""
        if self.processed_indices:
            raise InvalidError("record_batch: this epoch has record_indices already; call one only")
        self.processed_num += min(count, len(self.dataset) - self.processed_num)

    def record_indices(self, indices: Iterable[int]) -> None:
        """This rank has trained with these samples, in an order of its own: an alternative to
        record_batch. Other ranks know it from the next synchronisation of the state on; what a rank
        that is lost recorded comes again."""
        if self.processed_num > 0:
            raise InvalidError("record_indices: this epoch has record_batch already; call one only")
        self.processed_indices.update(indices)

    def state_dict(self) -> Dict[str, Any]:
        """What is done: numbers, and indices where record_indices was called."""
        state = {"epoch": self.epoch, "processed_num": self.processed_num}
        if self.processed_indices:
            state["processed_indices"] = sorted(self.processed_indices)
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Go on from there, with the ranks that there are now."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict.get("processed_num", 0)
        self.processed_indices = set(state_dict.get("processed_indices", ()))
        self.reset()

    def reset(self) -> None:
        """Share out what is left among the ranks that there are now."""
        if is_initialized():
            self.num_replicas, self.rank = size(), rank()
        self.remaining_indices = self._left()
        count = len(self.remaining_indices)
        self.num_samples = -(-count // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self._unrecorded = self.num_samples

    def _left(self) -> List[int]:
        """The samples that are not done, in the order of this epoch."""
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        done = self.processed_indices
        return [each for each in order if each not in done][self.processed_num :]

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        padded = left + [left[i % len(left)] for i in range(self.total_size - len(left))]
        return iter(padded[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
