"""horovod.torch is hvd.torch."""
import sys

import hvd.torch
from hvd.torch import compression, functions, mpi_ops, optimizer, sync_batch_norm

for _module in (compression, functions, mpi_ops, optimizer, sync_batch_norm):
    sys.modules["horovod.torch." + _module.__name__.rsplit(".", 1)[1]] = _module
sys.modules["horovod.torch"] = hvd.torch
