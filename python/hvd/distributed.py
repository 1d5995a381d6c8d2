"""The backend "hvd" of torch.distributed.

    import hvd.distributed
    torch.distributed.init_process_group("hvd")

The import is not needed where pip has installed the package and torch is 2.5 or later, which then
knows the backend (TORCH_DEVICE_BACKEND_AUTOLOAD=0 switches that off).

Rank and size are those of the job that srun or hvdrun started; MASTER_ADDR and MASTER_PORT are
neither needed nor used. Tensors are in host memory, or on GPUs. Point-to-point operations are not
supported."""
import atexit
import contextlib
import fcntl
import functools
import itertools
import os
import queue
import shutil
import socket
import struct
import tempfile
import threading
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import hvd
from hvd import _buckets
from hvd import _operations as operations
from hvd._library import libc
from hvd._names import MadeUpName, made_up_name
from hvd.errors import DuplicateError, InvalidError, StateError, UnsupportedError
from hvd.torch.mpi_ops import SparseHandle, sparse_allreduce_async

# Numbers of groups in the names of their operations: ranks count those too of which they are no
# members.
_group_numbers = itertools.count()
_new_group_ranks = threading.local()

# ---- Work: an operation in flight ---------------------------------------------------------------


class _Completer:
    """One thread that waits for operations, in their order, and completes the futures that torch
    asked for. For tensors on a GPU it has a stream of its own, which waits in place of the
    program's: what that computes meanwhile goes on, until it waits for the future."""

    def __init__(self) -> None:
        self._works: "queue.SimpleQueue[_Work]" = queue.SimpleQueue()
        self._streams: Dict[torch.device, Any] = {}
        self._pid = 0

    def add(self, work: "_Work") -> None:
        if self._pid != os.getpid():
            self._pid, self._works = os.getpid(), queue.SimpleQueue()
            threading.Thread(target=self._run, args=(self._works,), daemon=True).start()
        self._works.put(work)

    def _run(self, works: "queue.SimpleQueue[_Work]") -> None:
        while True:
            work = works.get()
            with self._in_own_stream(work.device):
                work.complete_future()

    def _in_own_stream(self, device: Optional[torch.device]) -> Any:
        if device is None:
            return contextlib.nullcontext()
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return torch.cuda.stream(self._streams[device])


_completer = _Completer()


class _Callbacks:
    """The callbacks of one operation. They run on some thread at some time, on each rank another,
    so what they submit has names that are counted within them."""

    _running = threading.local()

    def __init__(self, operation: Optional[str]):
        self._operation = operation  # None: its result was there, so all ranks run them in order
        self._counts: Dict[str, int] = {}

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Within it this thread runs one of them."""
        outer = getattr(self._running, "callbacks", None)
        self._running.callbacks = outer if self._operation is None else self
        try:
            yield
        finally:
            self._running.callbacks = outer

    @classmethod
    def name(cls, kind: str, number: int) -> str:
        """The next name for an operation of this kind in process set [number]."""
        callbacks = getattr(cls._running, "callbacks", None)
        if callbacks is None:
            return made_up_name(kind, number)
        count = callbacks._counts[kind] = callbacks._counts.get(kind, -1) + 1
        return MadeUpName("%s.then.%s.%d" % (callbacks._operation, kind, count))


class _Future(torch.futures.Future):
    """The result of an operation, or of a callback that follows it. Callbacks may submit operations
    and wait for them: a thread that waits completes the future itself, as the completer may be the
    thread that waits."""

    def __init__(self, work: "_Work", callbacks: _Callbacks):
        super().__init__(devices=[] if work.device is None else [work.device])
        self._work, self._callbacks = work, callbacks

    def wait(self) -> Any:
        self._work.complete_future()
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> "_Future":
        made = _Future(self._work, self._callbacks)

        def follow(_: Any) -> None:
            with self._callbacks.run():
                try:
                    result = callback(self)
                except Exception as error:
                    made.set_exception(error)
                else:
                    made.set_result(result)

        self.add_done_callback(follow)
        return made


# Where torch's C++ holds a work, it does not keep its Python part, without which it would wait for
# ever. So each lives here until it is waited for; of those that nobody waits for, the last ones,
# with their tensors. C++ has two at most for which it has not asked yet.
_alive: "Dict[int, _Work]" = {}
_ALIVE_LIMIT = 64


def _keep(work: "_Work") -> None:
    _alive[id(work)] = work
    while len(_alive) > _ALIVE_LIMIT:
        oldest = _alive.pop(next(iter(_alive)), None)
        if oldest is not None and not oldest.is_completed():
            _alive[id(oldest)] = oldest
            break


class _Work(dist.Work):
    """What torch gets for an operation. [store] puts its result where the caller wants it;
    [tensors] are those."""

    def __init__(
        self,
        handle: Union[hvd.Handle, SparseHandle],
        tensors: List[torch.Tensor],
        store: Callable[[Any], Any],
    ):
        super().__init__()
        self._handle, self._tensors = handle, tensors
        self._store: Optional[Callable[[Any], Any]] = store
        self._future: Optional[_Future] = None
        self._completes = threading.Lock()  # held for ever by the thread that completes the future
        self._lock = threading.Lock()
        self._error: Optional[BaseException] = None
        self.device = next((each.device for each in tensors if each.is_cuda), None)
        self._end: Any = None  # of tensors on a GPU: where the stream that waited first had them
        _keep(self)

    def wait(self, timeout: Any = None) -> bool:
        with self._lock:
            if self._store is not None:
                store, self._store = self._store, None
                try:
                    with torch.no_grad():
                        store(self._handle.wait())
                    if self.device is not None:
                        self._end = torch.cuda.current_stream(self.device).record_event()
                except BaseException as error:
                    self._error = error
                _alive.pop(id(self), None)
            elif self._end is not None:
                torch.cuda.current_stream(self.device).wait_event(self._end)
        if self._error is not None:
            raise self._error
        return True

    def complete_future(self) -> None:
        """Complete the future, unless another thread does."""
        if not self._completes.acquire(blocking=False):
            return
        try:
            self.wait()
        except Exception as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(self._tensors)

    def get_future(self) -> _Future:
        if self._future is None:
            self._future = _Future(self, _Callbacks(self._handle.name))
            _completer.add(self)
        return self._future

    def is_completed(self) -> bool:
        return self._store is None or self._handle.done()

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        self.wait()


# ---- The process group --------------------------------------------------------------------------

_OPS = [
    (dist.ReduceOp.SUM, hvd.Sum),
    (dist.ReduceOp.PRODUCT, hvd.Product),
    (dist.ReduceOp.MIN, hvd.Min),
    (dist.ReduceOp.MAX, hvd.Max),
    (getattr(dist.ReduceOp, "AVG", None), hvd.Average),
]


def _op_of(opts: Any) -> hvd.ReduceOp:
    for theirs, ours in _OPS:
        if theirs is not None and opts.reduceOp == theirs:
            return ours
    names = ("BAND", "BOR", "BXOR", "PREMUL_SUM")
    others = filter(functools.partial(hasattr, dist.ReduceOp), names)
    name = [each for each in others if opts.reduceOp == getattr(dist.ReduceOp, each)]
    raise UnsupportedError(
        "the backend hvd has no reduction %s; expected SUM, AVG, PRODUCT, MIN or MAX"
        % (name[0] if name else opts.reduceOp)
    )


def _nothing(_: Any) -> None:
    """The result is in its place already."""


def _flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([each.reshape(-1) for each in tensors])


def _spread(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy the elements of [flat] into tensors, one after another."""
    room = sum(each.numel() for each in tensors)
    if room != flat.numel():
        raise InvalidError(
            "the members sent %d elements, but the output tensors hold %d; they must be equal"
            % (flat.numel(), room)
        )
    begin = 0
    for each in tensors:
        each.copy_(flat[begin : begin + each.numel()].view(each.shape))
        begin += each.numel()


def _copy_all(results: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    for result, output in zip(results, outputs):
        output.copy_(result.view(output.shape))


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


class ProcessGroupHvd(dist.ProcessGroup):
    """The collectives of torch.distributed by hvd, over one process set."""

    def __init__(self, rank: int, size: int, number: int, group: int):
        super().__init__(rank, size)
        self._number = number
        self._prefix = "torch%d." % group
        _keep_name(self)

    def _start_coalescing(self, device: Any) -> None:
        raise UnsupportedError(
            "hvd coalesces operations without device=: leave it out of _coalescing_manager"
        )

    def getBackendName(self) -> str:
        return "hvd"

    def _get_backend_name(self) -> str:
        return "hvd"

    def name(self) -> str:
        return "hvd"

    def _set_sequence_number_for_group(self) -> None:
        """hvd counts by itself."""

    def _name(self, kind: str) -> str:
        return _Callbacks.name(self._prefix + kind, self._number)

    def _global(self, rank: int) -> int:
        """The job's rank of a member."""
        return hvd.process_set_ranks(self._number)[rank]

    def _root(self, kind: str, opts: Any) -> int:
        """The member that is the root."""
        if not 0 <= opts.rootRank < self.size():
            raise InvalidError(
                "%s: the root is %d; expected a member from 0 to %d"
                % (kind, opts.rootRank, self.size() - 1)
            )
        return opts.rootRank

    def _one_for_each(self, kind: str, tensors: List[torch.Tensor]) -> List[torch.Tensor]:
        if len(tensors) != self.size():
            raise InvalidError(
                "%s: the list has %d tensors; expected one for each of the %d members"
                % (kind, len(tensors), self.size())
            )
        return tensors

    # ---- reductions ----

    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> _Work:
        op = hvd.Sum if opts is None else _op_of(opts)
        if tensors[0].is_sparse:
            return self._sparse_allreduce(tensors, op)
        if len(tensors) == 1:
            handle = operations.allreduce_async(
                tensors[0], op, self._name("allreduce"), process_set=self._number, out=tensors[0]
            )
        else:
            name = self._name("grouped_allreduce")
            handle = operations.grouped_allreduce_async(
                tensors, op, name, process_set=self._number, outs=tensors
            )
        return _Work(handle, tensors, _nothing)

    def _sparse_allreduce(self, tensors: List[torch.Tensor], op: hvd.ReduceOp) -> _Work:
        if len(tensors) != 1 or op not in (hvd.Sum, hvd.Average):
            raise UnsupportedError(
                "the backend hvd reduces sparse tensors one at a time, by SUM or AVG"
            )
        handle = sparse_allreduce_async(tensors[0], self._name("sparse"), op, self._number)
        return _Work(handle, tensors, tensors[0].copy_)

    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any = None) -> _Work:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: List[torch.Tensor], opts: Any) -> _Work:
        handle = operations.allreduce_async(
            tensors[0], _op_of(opts), self._name("reduce"), process_set=self._number
        )

        def store(result: torch.Tensor) -> None:
            if opts.rootRank == self.rank():
                tensors[0].copy_(result)

        return _Work(handle, tensors, store)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> _Work:
        handle = operations.reducescatter_async(
            input.reshape(-1), _op_of(opts), self._name("reducescatter"), process_set=self._number
        )
        return _Work(handle, [output], lambda result: output.copy_(result.view(output.shape)))

    def reduce_scatter(
        self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any = None
    ) -> _Work:
        parts = self._one_for_each("reduce_scatter", inputs[0])
        return self._reduce_scatter_base(outputs[0], _flat(parts), opts)

    # ---- from one to all, and back ----

    def broadcast(self, tensors: List[torch.Tensor], opts: Any) -> _Work:
        tensor = tensors[opts.rootTensor]
        root = self._global(self._root("broadcast", opts))
        handle = operations.broadcast_async(
            tensor, root, self._name("broadcast"), self._number, tensor
        )
        return _Work(handle, tensors, _nothing)

    def gather(
        self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any
    ) -> _Work:
        splits = [0] * self.size()
        root = self._root("gather", opts)
        splits[root] = inputs[0].numel()
        into = self._one_for_each("gather", outputs[0]) if root == self.rank() else []
        return self._exchange(inputs[0].reshape(-1), splits, into, "gather")

    def scatter(
        self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any
    ) -> _Work:
        if self._root("scatter", opts) == self.rank():
            parts = self._one_for_each("scatter", inputs[0])
            flat, splits = _flat(parts), [each.numel() for each in parts]
        else:
            flat, splits = outputs[0].new_empty(0), [0] * self.size()
        return self._exchange(flat, splits, outputs, "scatter")

    # ---- all to all ----

    def _exchange(
        self, flat: torch.Tensor, splits: List[int], outputs: List[torch.Tensor], kind: str
    ) -> _Work:
        """Send parts of a flat tensor to all, and put what comes into the outputs, one after
        another."""
        handle = operations.alltoall_async(flat, splits, self._name(kind), self._number)
        return _Work(handle, outputs, lambda result: _spread(result[0], outputs))

    def alltoall(
        self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None
    ) -> _Work:
        splits = [each.numel() for each in inputs]
        return self._exchange(_flat(inputs), splits, outputs, "alltoall")

    def alltoall_base(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: List[int],
        input_splits: List[int],
        opts: Any = None,
    ) -> _Work:
        splits = list(input_splits) or None
        name = self._name("alltoall_base")
        handle = operations.alltoall_async(input, splits, name, self._number)
        return _Work(handle, [output], lambda result: output.copy_(result[0].view(output.shape)))

    def allgather(
        self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None
    ) -> _Work:
        parts = self._one_for_each("all_gather", outputs[0])
        handle = operations.allgather_async(
            inputs[0].reshape(-1), self._name("allgather"), self._number
        )
        return _Work(handle, parts, lambda result: _spread(result, parts))

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> _Work:
        name = self._name("allgather_base")
        handle = operations.allgather_async(input.reshape(-1), name, self._number)
        return _Work(handle, [output], lambda result: output.copy_(result.view(output.shape)))

    def allgather_coalesced(
        self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None
    ) -> _Work:
        name = self._name("grouped_allgather")
        flat = [each.reshape(-1) for each in inputs]
        handle = operations.grouped_allgather_async(flat, name, self._number)

        def store(results: List[torch.Tensor]) -> None:
            for i, result in enumerate(results):
                _spread(result, [of_member[i] for of_member in outputs])

        return _Work(handle, [each for of_member in outputs for each in of_member], store)

    def allgather_into_tensor_coalesced(
        self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None
    ) -> _Work:
        name = self._name("grouped_allgather")
        flat = [each.reshape(-1) for each in inputs]
        handle = operations.grouped_allgather_async(flat, name, self._number)
        return _Work(handle, outputs, lambda results: _copy_all(results, outputs))

    def reduce_scatter_tensor_coalesced(
        self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any
    ) -> _Work:
        name = self._name("grouped_reducescatter")
        flat = [each.reshape(-1) for each in inputs]
        handle = operations.grouped_reducescatter_async(
            flat, _op_of(opts), name, process_set=self._number
        )
        return _Work(handle, outputs, lambda results: _copy_all(results, outputs))

    def barrier(self, opts: Any = None) -> _Work:
        return _Work(operations.barrier_async(self._number), [], _nothing)

    # newer names of the same
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # ---- not supported ----

    def _no_pairs(self, *_: Any) -> _Work:
        raise UnsupportedError(
            "the backend hvd has no send and recv; use all_to_all, or a group of the backend gloo"
        )

    send = recv = recv_anysource = _no_pairs


# ---- Groups -------------------------------------------------------------------------------------


def _check_place(rank: int, size: int) -> None:
    """Is that what the job says?"""
    if (rank, size) != (hvd.rank(), hvd.size()):
        raise StateError(
            "torch was told rank %d of %d, but in hvd's job this is rank %d of %d; give "
            "init_process_group neither rank nor world_size" % (rank, size, hvd.rank(), hvd.size())
        )


def _create(store: Any, rank: int, size: int, timeout: Any) -> ProcessGroupHvd:
    """What torch calls for a new group of the backend, on its members."""
    hvd.init()
    ranks = getattr(_new_group_ranks, "value", None)
    if ranks is None and size != hvd.size():
        raise StateError(
            "a group of %d of %d ranks: import hvd.distributed before new_group"
            % (size, hvd.size())
        )
    if ranks is None:
        _check_place(rank, size)
        return ProcessGroupHvd(rank, size, 0, next(_group_numbers))
    return ProcessGroupHvd(rank, size, _new_group_ranks.number, _new_group_ranks.group)


def _is_hvd(backend: Any) -> bool:
    default = c10d._get_default_group()
    return (backend or dist.get_backend(default)).lower() == "hvd"


def _set_of(ranks: Sequence[int]) -> int:
    """The process set of these ranks. Collective over all ranks of the job."""
    if sorted(ranks) == list(range(hvd.size())):
        return 0
    try:
        return hvd.add_process_set(ranks).process_set_id
    except DuplicateError:
        known = {tuple(hvd.process_set_ranks(each)): each for each in hvd.process_set_ids()}
        return known[tuple(sorted(ranks))]


# What creates groups, also for a DeviceMesh: since torch 2.0 a function behind new_group.
_HAS_TAGS = hasattr(c10d, "_new_group_with_tag")
_create_group = c10d._new_group_with_tag if _HAS_TAGS else c10d.new_group


def _new_group(
    ranks: Any = None,
    timeout: Any = None if _HAS_TAGS else c10d.default_pg_timeout,
    backend: Any = None,
    *args: Any,
    **kwargs: Any
) -> Any:
    """Creates a group, and before that its process set: that takes all ranks, and torch asks a
    backend on the members only."""
    if ranks is None or not _is_hvd(backend):
        return _create_group(ranks, timeout, backend, *args, **kwargs)
    if kwargs.get("use_local_synchronization"):
        raise UnsupportedError(
            "the backend hvd creates groups on all ranks: call new_group on each, without "
            "use_local_synchronization"
        )
    if not kwargs.get("sort_ranks", True) and list(ranks) != sorted(ranks):
        raise UnsupportedError(
            "the members of a group of the backend hvd are in ascending order, not %s" % list(ranks)
        )
    _new_group_ranks.number = _set_of(ranks)
    _new_group_ranks.group = next(_group_numbers)
    _new_group_ranks.value = list(ranks)
    try:
        return _create_group(ranks, timeout, backend, *args, **kwargs)
    finally:
        _new_group_ranks.value = None


# ---- Rendezvous: hvd:// -------------------------------------------------------------------------


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


def _make_store(timeout: Any) -> Any:
    """A store that all ranks share: a file only this user reads on one node, torch's TCP store on
    several."""
    if hvd.cross_size() == 1:
        folder = tempfile.mkdtemp(prefix="hvd-store.") if hvd.rank() == 0 else None
        folder = hvd.broadcast_object(folder, 0, "torch.store")
        if hvd.rank() == 0:
            atexit.register(shutil.rmtree, folder, True)
        return dist.FileStore(os.path.join(folder, "store"), hvd.size())
    if hvd.rank() == 0:
        address = _own_address()
        store = dist.TCPStore(address, 0, hvd.size(), True, timeout, wait_for_workers=False)
        hvd.broadcast_object((address, store.port), 0, "torch.store")
        return store
    address, port = hvd.broadcast_object(None, 0, "torch.store")
    return dist.TCPStore(address, port, hvd.size(), False, timeout, wait_for_workers=False)


def _rendezvous(url: str, timeout: Any = c10d.default_pg_timeout, **_: Any) -> Iterator[Tuple]:
    hvd.init()
    query = urllib.parse.parse_qsl(urllib.parse.urlparse(url).query)
    told = {key: int(value) for key, value in query if value != "-1"}  # which torch says for none
    _check_place(told.get("rank", hvd.rank()), told.get("world_size", hvd.size()))
    yield _make_store(timeout), hvd.rank(), hvd.size()
    raise StateError("hvd:// cannot start the process group again; call init_process_group again")


def _rendezvous_env(original: Callable) -> Callable:
    """env://, which init_process_group uses when it is told nothing: as ever where MASTER_ADDR says
    so, otherwise hvd's."""

    def handler(url: str, *args: Any, **kwargs: Any) -> Iterator[Tuple]:
        if "MASTER_ADDR" in os.environ or "rank=" in url or "world_size=" in url:
            return original(url, *args, **kwargs)
        return _rendezvous(url, *args, **kwargs)

    return handler


def _starting_by_hvd(original: Callable) -> Callable:
    """init_process_group, for which the backend hvd finds the ranks itself: a port that a launcher
    chose may still be in use by the process group before."""

    @functools.wraps(original)
    def init_process_group(
        backend: Any = None, init_method: Optional[str] = None, *args: Any, **kwargs: Any
    ) -> None:
        store = kwargs.get("store", args[3] if len(args) > 3 else None)
        if str(backend).lower() == "hvd" and init_method in (None, "env://") and store is None:
            init_method = "hvd://"
        return original(backend, init_method, *args, **kwargs)

    return init_process_group


def _register() -> None:
    if not hasattr(dist.Backend, "register_backend"):
        raise ImportError(
            "hvd.distributed needs torch 1.13 or later with torch.distributed; this is %s"
            % torch.__version__
        )
    try:
        dist.Backend.register_backend("hvd", _create, devices=["cpu", "cuda"])
    except TypeError:  # before torch 2.0
        dist.Backend.register_backend("hvd", _create)
    dist.register_rendezvous_handler("hvd", _rendezvous)
    import sys

    handlers = getattr(sys.modules["torch.distributed.rendezvous"], "_rendezvous_handlers", {})
    if "env" in handlers:
        handlers["env"] = _rendezvous_env(handlers["env"])
    found = c10d.init_process_group
    original = getattr(found, "without_hvd", found)  # what hvd_torch_backend put there calls this
    dist.init_process_group = c10d.init_process_group = _starting_by_hvd(original)
    if _HAS_TAGS:
        c10d._new_group_with_tag = _new_group
    else:
        dist.new_group = c10d.new_group = _new_group


def buckets_in_window(wanted: bool) -> None:
    """Put buckets of DistributedDataParallel into memory that all ranks of the node reach
    (hvd_alloc), where they are reduced without copies? So it is for models that are wrapped after
    this module was imported; False leaves the buckets of later ones where torch puts them."""
    _buckets.wanted = wanted


_register()
_buckets.install()
