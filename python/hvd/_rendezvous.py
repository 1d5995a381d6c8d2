"""How ranks find each other for torch.distributed without an address: hvd://."""
import atexit
import datetime
import fcntl
import os
import shutil
import socket
import struct
import tempfile
import threading
import urllib.parse
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import hvd
from hvd import _operations as operations
from hvd._job import expect_no_others
from hvd._library import libc
from hvd._work import WaitTimedOut, seconds_of
from hvd.errors import HvdError, StateError


def check_place(rank: int, size: int) -> None:
    """Is that what the job says?"""
    if (rank, size) != (hvd.rank(), hvd.size()):
        raise StateError(
            "torch was told rank %d of %d, but in hvd's job this is rank %d of %d; give "
            "init_process_group neither rank nor world_size" % (rank, size, hvd.rank(), hvd.size())
        )


def meet(call: str, timeout: Optional[datetime.timedelta], number: int = 0) -> None:
    """Wait until all members of process set [number] have come to this call, but not for ever."""
    seconds = seconds_of(timeout or c10d.default_pg_timeout)
    handle = operations.allreduce_async(torch.empty(0), hvd.Sum, process_set=number)
    if seconds is not None and not handle.wait_for(seconds):
        expect_no_others(handle)
        who, also = ("members", "") if number else ("ranks", ", also those that are no members")
        raise WaitTimedOut(
            "%s: not all %s of the %s called it within %.3g s; all must%s, in the same order"
            % (call, who, "group" if number else "job", seconds, also)
        )
    handle.wait()


def known_set(ranks: Sequence[int]) -> Optional[int]:
    """The process set that has these ranks already."""
    for number in hvd.process_set_ids():
        if hvd.process_set_ranks(number) == sorted(ranks):
            return number
    return None


class _Adding(threading.Thread):
    """Adds a process set by its members, in a thread because one of them may never come."""

    def __init__(self, ranks: Sequence[int]):
        super().__init__(daemon=True)
        self._ranks = ranks
        self.number: Optional[int] = None
        self.error: Optional[HvdError] = None

    def run(self) -> None:
        try:
            self.number = hvd.add_process_set(self._ranks, by_members=True).process_set_id
        except HvdError as error:
            self.error = error

    def done(self) -> bool:
        return not self.is_alive()


def add_set_by_members(
    call: str, ranks: Sequence[int], timeout: Optional[datetime.timedelta]
) -> int:
    """Add the process set of these ranks, which all come to this call, but do not wait for ever."""
    seconds = seconds_of(timeout or c10d.default_pg_timeout)
    adding = _Adding(ranks)
    adding.start()
    adding.join(seconds)
    if not adding.done():
        expect_no_others(adding)
        raise WaitTimedOut(
            "%s: not all of the ranks %s called it within %.3g s; all must, in the same order"
            % (call, sorted(ranks), seconds)
        )
    if adding.error is not None:
        raise adding.error
    return adding.number


def _interface_address(name: str) -> Optional[str]:
    """The IPv4 address of a network interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", name.encode()[:255])
            answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def _own_address() -> str:
    """An address of this node that the others reach: on the network that hvd has found to join the
    nodes."""
    import ctypes

    libc.getenv.restype = ctypes.c_char_p  # os.environ does not see what hvd_init has set
    names = (libc.getenv(b"GLOO_SOCKET_IFNAME") or b"").decode()
    for name in names.split(","):
        address = _interface_address(name) if name else None
        if address is not None:
            return address
    return socket.gethostname()


def _make_folder() -> str:
    """A new folder that only this user reads: in the job's own one, which its launcher removes, if
    that may be used. This process removes it too, unless it is killed."""
    parent = os.environ.get("PMIX_SERVER_TMPDIR", "")
    usable = os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK)
    folder = tempfile.mkdtemp(prefix="hvd-store.", dir=parent if usable else None)
    atexit.register(shutil.rmtree, folder, True)
    return folder


def make_store(timeout: Any) -> Any:
    """A store that all ranks share: a file only this user reads on one node, torch's TCP store on
    several."""
    meet("init_process_group", timeout)
    if hvd.cross_size() == 1:
        folder = hvd.broadcast_object(_make_folder() if hvd.rank() == 0 else None, 0, "torch.store")
        return dist.FileStore(os.path.join(folder, "store"), hvd.size())
    if hvd.rank() == 0:
        address = _own_address()
        store = dist.TCPStore(address, 0, hvd.size(), True, timeout, wait_for_workers=False)
        hvd.broadcast_object((address, store.port), 0, "torch.store")
        return store
    address, port = hvd.broadcast_object(None, 0, "torch.store")
    return dist.TCPStore(address, port, hvd.size(), False, timeout, wait_for_workers=False)


def rendezvous(url: str, timeout: Any = c10d.default_pg_timeout, **_: Any) -> Iterator[Tuple]:
    hvd.init()
    query = urllib.parse.parse_qsl(urllib.parse.urlparse(url).query)
    told = {key: int(value) for key, value in query if value != "-1"}  # which torch says for none
    check_place(told.get("rank", hvd.rank()), told.get("world_size", hvd.size()))
    yield make_store(timeout), hvd.rank(), hvd.size()
    raise StateError("hvd:// cannot start the process group again; call init_process_group again")


def rendezvous_env(original: Callable) -> Callable:
    """env://, which init_process_group uses when it is told nothing: as ever where MASTER_ADDR says
    so, otherwise hvd's."""

    def handler(url: str, *args: Any, **kwargs: Any) -> Iterator[Tuple]:
        if "MASTER_ADDR" in os.environ or "rank=" in url or "world_size=" in url:
            return original(url, *args, **kwargs)
        return rendezvous(url, *args, **kwargs)

    return handler
