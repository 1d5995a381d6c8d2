"""hvd.torch.elastic: the calls of horovod.torch.elastic. Training goes on when ranks are lost or
join, with the state of models and optimizers.

    state = hvd.elastic.TorchState(model, optimizer, epoch=0, batch=0)

    @hvd.elastic.run
    def train(state):
        ...

    train(state)

hvd.elastic explains what holds for all states."""
from hvd.elastic import (
    HorovodInternalError,
    HostsUpdatedInterrupt,
    HostUpdateResult,
    ObjectState,
    State,
    run,
)
from hvd.torch.elastic.constant_batch import ConstantBatch
from hvd.torch.elastic.sampler import ElasticSampler
from hvd.torch.elastic.state import (
    StateHandler,
    TorchState,
    get_handler_registry,
    set_handler_registry,
)

__all__ = [
    "ConstantBatch",
    "ElasticSampler",
    "HorovodInternalError",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "run",
    "set_handler_registry",
]
