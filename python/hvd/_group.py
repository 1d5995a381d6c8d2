"""A process group of the backend "hvd" of torch.distributed: its name, members and timeout."""
import datetime
from typing import Any, Callable, List, Optional

import torch
import torch.distributed as dist

import hvd
from hvd import _flight
from hvd._collectives import Collectives
from hvd._names import Unnamed
from hvd._work import Callbacks, Limit, Work
from hvd.errors import UnsupportedError


def _keep_name(group: dist.ProcessGroup) -> None:
    """torch 2 keeps the name of a group, by which DTensor and functional collectives find it, in
    its C++ backends alone. The one that does nothing gets it; operations go to the group itself."""
    silent = getattr(torch._C._distributed_c10d, "FakeProcessGroup", None)
    if silent is None or not hasattr(group, "_register_backend"):
        return
    try:
        backend = silent(group.rank(), group.size())
    except TypeError:  # made in another way, by torch that asks the group for its name
        return
    for device in ("cpu", "cuda"):
        group._register_backend(
            torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, backend
        )


class ProcessGroupHvd(Collectives, dist.ProcessGroup):
    """The operations of torch.distributed by hvd, over one process set."""

    def __init__(
        self,
        rank: int,
        size: int,
        number: int,
        group: int,
        timeout: Optional[datetime.timedelta] = None,
    ):
        super().__init__(rank, size)
        self.number = number
        self.job, self.timeout = _flight.current(), timeout
        self.members = hvd.process_set_ranks(number)
        self.limit = Limit(timeout)
        self._prefix = "torch%d." % group
        _keep_name(self)

    def getBackendName(self) -> str:
        return "hvd"

    def _get_backend_name(self) -> str:
        return "hvd"

    def name(self) -> str:
        return "hvd"

    def _set_sequence_number_for_group(self) -> None:
        """hvd counts by itself."""

    def name_of(self, kind: str) -> Unnamed:
        """The name of an operation of this kind."""
        return Callbacks.name(self._prefix + kind, self.number)

    def global_rank(self, rank: int) -> int:
        """The job's rank of a member."""
        return self.members[rank]

    def work(
        self, handle: Any, tensors: List[torch.Tensor], store: Callable[[Any], Any], opts: Any
    ) -> Work:
        """What torch gets for an operation with these options."""
        return Work(handle, tensors, store, self.limit, self.limit.seconds_for(opts))

    def _start_coalescing(self, device: Any) -> None:
        raise UnsupportedError(
            "hvd coalesces operations without device=: leave it out of _coalescing_manager"
        )

    def _no_pairs(self, *_: Any) -> Work:
        raise UnsupportedError(
            "the backend hvd has no send and recv; use all_to_all, or a group of the backend gloo"
        )

    send = recv = recv_anysource = _no_pairs
