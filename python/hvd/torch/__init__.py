"""hvd.torch: the calls of horovod.torch, with their names, arguments and defaults.

    import hvd.torch as hvd
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

It registers the backend "hvd" of torch.distributed as well, see hvd.distributed.
"""
from hvd._device import nccl_version
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
    rank,
    remove_process_set,
    request_stop,
    should_stop,
    shutdown,
    size,
    stop_timeline,
)
from hvd._memory import alloc_tensor as alloc
from hvd._persistent import (
    Persistent,
    allgather_init,
    allreduce_init,
    broadcast_init,
    reducescatter_init,
)
from hvd.errors import HvdError
from hvd.torch import elastic
from hvd.torch.compression import Compression
from hvd.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from hvd.torch.mpi_ops import *  # noqa: F401,F403 its __all__ is the list
from hvd.torch.optimizer import DistributedOptimizer
from hvd.torch.sync_batch_norm import SyncBatchNorm

HorovodInternalError = HvdError


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Write a timeline of each rank into the folder [file_path]. [mark_cycles] is ignored: hvd has
    none."""
    from hvd import _job

    _job.start_timeline(file_path)


# ---- What Horovod says of itself; hvd carries the data without these
# ------------------------------


def mpi_threads_supported() -> bool:
    """May the program use MPI from several threads? As far as hvd is concerned."""
    return True


def _no(*_: object, **__: object) -> bool:
    """hvd does not build on this."""
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = ddl_built = ccl_built = rocm_built = _no


def nccl_built(verbose: bool = False) -> int:
    """The version of the NCCL that carries tensors on GPUs, such as 22805; 0 where CUDA's driver or
    NCCL is missing."""
    return nccl_version()


def cuda_built(verbose: bool = False) -> bool:
    """Can tensors on GPUs travel without the host? With NCCL they can."""
    return nccl_version() > 0


gpu_available = cuda_built


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def _register_backend() -> None:
    """Let init_process_group("hvd") work, as after import hvd.distributed, if this torch has it."""
    import torch.distributed as dist

    if dist.is_available() and hasattr(dist.Backend, "register_backend"):
        import hvd.distributed  # noqa: F401 it registers itself


_register_backend()
