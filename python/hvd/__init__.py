"""hvd: data-parallel collectives, and messages, between the ranks of a job.

    import hvd
    hvd.init()
    total = hvd.allreduce(array, op=hvd.Sum)

Arrays are numpy arrays, torch tensors, or whatever has __array_interface__, __dlpack__ or a buffer;
they travel without a copy. hvd.torch has the calls of horovod.torch; hvd.distributed is the backend
"hvd" of torch.distributed. hvd(3) explains what holds for all calls.

Any thread may make any call; only init and shutdown are made while no other thread is in a call.
While a call waits, other Python threads run. A forked child, such as a worker of a DataLoader, has
no part in the job: its calls raise StateError."""
from hvd import elastic
from hvd._device import DeviceArray
from hvd._flight import Handle
from hvd._job import (
    ProcessSet,
    add_process_set,
    cross_rank,
    cross_size,
    global_process_set,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    node_count,
    node_rank,
    process_set_ids,
    process_set_ranks,
    rank,
    remove_process_set,
    request_stop,
    should_stop,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    version,
)
from hvd._memory import alloc, alloc_tensor
from hvd._messages import (
    ANY_SOURCE,
    Recv,
    Send,
    exchange,
    exchange_async,
    irecv,
    isend,
    recv,
    recv_async,
    send,
    send_async,
)
from hvd._objects import allgather_object, broadcast_object
from hvd._operations import (
    Adasum,
    Average,
    Band,
    Bor,
    Bxor,
    Max,
    Min,
    Product,
    ReduceOp,
    Sum,
    allgather,
    allgather_async,
    allreduce,
    allreduce_async,
    alltoall,
    alltoall_async,
    barrier,
    barrier_async,
    broadcast,
    broadcast_async,
    gather,
    gather_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    join_async,
    poll,
    reduce,
    reduce_async,
    reducescatter,
    reducescatter_async,
    scatter,
    scatter_async,
    synchronize,
)
from hvd._persistent import (
    Persistent,
    allgather_init,
    allreduce_init,
    broadcast_init,
    reducescatter_init,
)
from hvd.errors import (
    DuplicateError,
    HvdError,
    InvalidError,
    MismatchError,
    NoMemoryError,
    RankLostError,
    SetError,
    ShutdownError,
    StateError,
    SystemFailure,
    TimedOutError,
    UnsupportedError,
)


def run(*args, **kwargs):
    """Call a function on several ranks of this machine, see hvd.launch.run."""
    from hvd.launch import run as launch_run

    return launch_run(*args, **kwargs)


__version__ = "0.1.0"
__all__ = [name for name in dir() if not name.startswith("_") and name != "errors"]
