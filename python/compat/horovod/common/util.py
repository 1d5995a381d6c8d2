"""What Horovod was built with, and two helpers."""
from hvd.torch import (  # noqa: F401
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    mpi_built,
    nccl_built,
    num_rank_is_power_2,
    rocm_built,
)
from hvd.torch.mpi_ops import split_list  # noqa: F401
