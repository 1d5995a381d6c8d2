"""horovod.torch is hvd.torch."""
import sys

import hvd.torch
from hvd.torch import compression, elastic, functions, mpi_ops, optimizer, sync_batch_norm
from hvd.torch.elastic import sampler, state

for _module in (compression, elastic, functions, mpi_ops, optimizer, sync_batch_norm, sampler,
                state):  # fmt: skip
    sys.modules["horovod" + _module.__name__[len("hvd") :]] = _module
sys.modules["horovod.torch"] = hvd.torch
