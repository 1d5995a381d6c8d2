"""A process group of the backend "hvd" of torch.distributed: its name, members and timeout."""
import contextlib
import datetime
import operator
import threading
from typing import Any, Callable, List, Optional, TypeVar

import torch
import torch.distributed as dist

import hvd
from hvd import _flight
from hvd import _stated as stated
from hvd._collectives import OLD_NAMES, Collectives
from hvd._monitored import missing_members
from hvd._names import Unnamed, next_of_set
from hvd._stated import Tensors
from hvd._untraced import leave_untraced
from hvd._work import Callbacks, Coalesced, Limit, Message, Work, abort, pending_of, seconds_of
from hvd.errors import InvalidError, UnsupportedError

# Groups with the same members share a process set, in which libhvd tells messages apart by their
# tags alone: so each such group has tags of its own, and the first those that torch's caller gives.
# The last one is for monitored_barrier.
_TAGS = 1 << 20
_BARRIER_TAG = _TAGS - 1
_GROUPS_WITH_TAGS = (1 << 31) // _TAGS

AnyWork = TypeVar("AnyWork", bound=Work)


def _without_operations(rank: int, size: int) -> Any:
    """A C++ backend: one that refuses all operations, where Python can make it; in other versions
    the one of torch that does nothing; None where neither can be made."""
    for names in ("Backend", "FakeProcessGroup", "FakeProcessGroup._create_internal"):
        with contextlib.suppress(AttributeError, TypeError):
            return operator.attrgetter(names)(torch._C._distributed_c10d)(rank, size)
    return None


def _keep_name(group: dist.ProcessGroup) -> None:
    """torch 2 keeps the name of a group, by which DTensor and functional collectives find it, in
    its C++ backends alone. One gets it that has no operations: these go to the group itself."""
    if not hasattr(group, "_register_backend"):
        return
    backend = _without_operations(group.rank(), group.size())
    if backend is None:  # torch that asks the group for its name
        return
    for device in ("cpu", "cuda"):
        group._register_backend(
            torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, backend
        )


# What torch's class does by itself: names, members, and its accounts of backends.
_OF_TORCH = frozenset(
    (
        "boxed get_backend get_group_store rank size unbox _backend_id _get_backend _id "
        "_pybind11_conduit_v1_ _register_backend _set_default_backend _set_group_desc "
        "_set_group_name"
    ).split()
)


_REFORM = "call hvd.distributed.reform() when ranks were lost or have joined"
# what to do in place of a function, if that is not to use another backend
_INSTEAD = {"get_reconfigure_handle": _REFORM, "reconfigure": _REFORM}


def _refusal(name: str) -> Callable[..., Any]:
    instead = _INSTEAD.get(name, "use a group of another backend for it")

    def refuse(self: Any, *_: Any, **__: Any) -> Any:
        raise UnsupportedError("the backend hvd has no %s; %s" % (name, instead))

    return refuse


def _refusing_the_rest(kind: type) -> type:
    """Makes all that torch's class has besides refuse: it would go to a backend that does nothing,
    and seem to have worked."""
    base = dist.ProcessGroup
    own = {name for each in kind.__mro__[: kind.__mro__.index(base)] for name in vars(each)}
    reached = {old for name, old in OLD_NAMES.items() if hasattr(base, name)}  # torch calls the new
    for name in set(dir(base)) - own - reached - _OF_TORCH - set(dir(object)):
        thing = getattr(base, name)
        if callable(thing) and not isinstance(thing, type):
            setattr(kind, name, _refusal(name))
    return kind


@_refusing_the_rest
class ProcessGroupHvd(Collectives, dist.ProcessGroup):
    """The operations of torch.distributed by hvd, over one process set."""

    supports_reconfigure = False  # the launcher decides which ranks form the next epoch

    def __init__(
        self,
        rank: int,
        size: int,
        number: int,
        timeout: Optional[datetime.timedelta] = None,
    ):
        super().__init__(rank, size)
        self.number = number
        self.job, self.timeout = _flight.current(), timeout
        self.members = hvd.process_set_ranks(number)
        self.limit = Limit(timeout)
        place = next_of_set(number)
        self._prefix = "torch%d." % place
        self._tag_base = place % _GROUPS_WITH_TAGS * _TAGS
        self._coalescing = threading.local()  # its works, while this thread coalesces operations
        self._sequence = 0
        _keep_name(self)
        leave_untraced("hvd")

    def getBackendName(self) -> str:
        return "hvd"

    def _get_backend_name(self) -> str:
        return "hvd"

    def name(self) -> str:
        return "hvd"

    def _set_sequence_number_for_group(self) -> None:
        """hvd counts by itself."""

    def _get_sequence_number_for_group(self) -> int:
        """How many operations this rank has submitted."""
        return self._sequence

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        for work in pending_of(self.limit):
            work.wait()

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """The timeout of operations that are submitted from now on."""
        self.timeout, self.limit.seconds = timeout, seconds_of(timeout)

    def shutdown(self) -> None:
        """A group has nothing to close: its process set stays, which others may use."""

    def abort(self) -> None:
        """End the group on this rank: what is in flight of it, and what is called later, raises an
        error. The other members wait for their timeout, unless they abort it too."""
        abort(self.limit)

    def monitored_barrier(
        self, timeout: Optional[datetime.timedelta] = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier that names those that do not come in time, and ends the group then. It names
        all of them, also without [wait_all_ranks]."""
        self.limit.require()
        seconds = seconds_of(timeout or self.timeout) or float("inf")
        missing = missing_members(self, self._tag_base + _BARRIER_TAG, seconds)
        if missing:
            ranks = ", ".join(str(self.global_rank(each)) for each in missing)
            raise self.limit.end(
                "monitored_barrier: rank %s did not call it within its timeout, which is %.3g s on "
                "this rank; the group is of no use from then on; see what that rank does, or give "
                "all ranks a longer timeout" % (ranks, seconds)
            )

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
        return self._count(
            Work(handle, tensors, store, self.limit, self.limit.seconds_for(opts))
        )

    # ---- messages ----

    def send(self, tensors: Tensors, dstRank: int, tag: int = 0) -> Message:
        return self._message("send", tensors, self._end("send", dstRank), tag)

    def recv(self, tensors: Tensors, srcRank: int, tag: int = 0) -> Message:
        return self._message("recv", tensors, self._end("recv", srcRank), tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Message:
        return self._message("recv", tensors, hvd.ANY_SOURCE, tag)

    def _end(self, kind: str, member: int) -> int:
        """The job's rank of the other end."""
        if not 0 <= member < self.size():
            raise InvalidError(
                "%s: the other end is %d; expected a member from 0 to %d"
                % (kind, member, self.size() - 1)
            )
        return self.global_rank(member)

    def _message(self, kind: str, tensors: Tensors, rank: int, tag: int) -> Message:
        self.limit.require()
        tensor = stated.one(kind, tensors)
        if not 0 <= tag < _BARRIER_TAG:
            raise InvalidError(
                "%s: the tag is %d; expected 0 to %d, so that groups with the same members have "
                "tags of their own" % (kind, tag, _BARRIER_TAG - 1)
            )
        submit = hvd.send_async if kind == "send" else hvd.recv_async
        handle = submit(tensor, rank, self._tag_base + tag, self.number)
        tags = (self._tag_base + tag, tag)
        return self._count(Message(handle, tensor, self.limit, tags, self.members.index))

    # ---- several as one ----

    def _start_coalescing(self, device: Any = None) -> None:
        """Until _end_coalescing this thread's operations are those of one work. They begin at once:
        none waits for another to begin."""
        self._coalescing.works = []

    def _end_coalescing(self, device: Any = None) -> Optional[Work]:
        works = vars(self._coalescing).pop("works", [])
        if isinstance(device, list):  # before torch 2.0, whose caller has the works
            return None
        return Coalesced(works, self.limit)

    # names that torch's C++ calls since it has _start_coalescing for its Python
    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    def _count(self, work: AnyWork) -> AnyWork:
        self._sequence += 1
        works = getattr(self._coalescing, "works", None)
        if works is not None:
            works.append(work)
        return work

