"""The state of models, optimizers and samplers, and of other values."""
import copy
import inspect
import io
import pickle
from typing import Any, Dict, List, Optional, Tuple

import torch

from hvd._job import rank
from hvd.elastic import ObjectState
from hvd.errors import UnsupportedError
from hvd.torch.elastic.sampler import ElasticSampler
from hvd.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)

# ---- How one value is saved, restored and sent --------------------------------------------------


class StateHandler:
    """Of one value of a TorchState. sync() gives all ranks the value of rank 0; the TorchState
    saves it when all its values have arrived, so that a loss in between leaves no mixture."""

    def __init__(self, value: Any):
        self.value = value

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def get_saved(self) -> Any:
        """What was saved last, for --hvd-state-dir; torch.save can write it."""
        raise UnsupportedError(
            "TorchState: --hvd-state-dir: %s has no methods get_saved and set_saved; add them, or "
            "start the job without that option" % type(self).__name__
        )

    def set_saved(self, saved: Any) -> None:
        """Save what get_saved has returned, maybe in another process; its tensors are in host
        memory. restore() comes next."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """The program has assigned another value."""
        self.value = value
        self.save()


class StateDictHandler(StateHandler):
    """Of what has state_dict and load_state_dict, such as a scheduler of learning rates."""

    def __init__(self, value: Any):
        super().__init__(value)
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def get_saved(self) -> Any:
        return self._saved

    def set_saved(self, saved: Any) -> None:
        self._saved = saved

    def sync(self) -> None:
        found = broadcast_object(self.value.state_dict(), root_rank=0)
        if rank() != 0:
            self.value.load_state_dict(found)


class ModelStateHandler(StateDictHandler):
    """Of a torch.nn.Module: parameters and buffers are received in place."""

    def sync(self) -> None:
        state = self.value.state_dict()
        others = {key: each for key, each in state.items() if not isinstance(each, torch.Tensor)}
        tensors = {key: each for key, each in state.items() if key not in others}
        broadcast_parameters(tensors, root_rank=0)
        if others:  # what get_extra_state of a module gave
            state.update(broadcast_object(others, root_rank=0))
            if rank() != 0:
                self.value.load_state_dict(state)


class OptimizerStateHandler(StateDictHandler):
    """Of a torch.optim.Optimizer, such as a DistributedOptimizer."""

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class SamplerStateHandler(StateDictHandler):
    """Of an ElasticSampler."""

    def sync(self) -> None:
        states = allgather_object(self.value.state_dict())
        merged = dict(states[0])
        together = [each for each in states if each["epoch"] == merged["epoch"]]
        done = [set(each.get("processed_indices", ())) for each in together]
        merged["processed_indices"] = sorted(set().union(*done))
        self.value.load_state_dict(merged)


_registry: List[Tuple[type, type]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> List[Tuple[type, type]]:
    """Types of values, and the StateHandler of each; the first one that fits counts."""
    return _registry


def set_handler_registry(registry: List[Tuple[type, type]]) -> None:
    """From now on new states have these handlers."""
    global _registry
    _registry = registry


def _handler_of(value: Any) -> Optional[StateHandler]:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    has_state = hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
    return StateDictHandler(value) if has_state and not isinstance(value, type) else None


# What is saved is more than tensors; since torch 2.6 that has to be said.
_ALL_TYPES = (
    {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
)


# ---- The state ----------------------------------------------------------------------------------


class TorchState(ObjectState):
    """A state of a model, an optimizer and other values, which are attributes: TorchState(model,
    optimizer, epoch=0) has state.model, state.optimizer and state.epoch. Modules, optimizers,
    ElasticSamplers and what else has a state_dict keep their identity; other values are copied.
    Assigning another model, optimizer or the like replaces it, and saves it.

    Give it the sampler too, if there is one. A second model or optimizer gets a name of its own:
    TorchState(generator=one, discriminator=other)."""

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any):
        values.update(model=model, optimizer=optimizer)
        self._handlers: Dict[str, StateHandler] = {}
        handlers = {name: _handler_of(value) for name, value in values.items()}
        plain = {name: value for name, value in values.items() if handlers[name] is None}
        super().__init__(broadcast_object, rank, **plain)
        for name, handler in handlers.items():
            if handler is not None:
                setattr(self, name, values[name])
                self._handlers[name] = handler

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def to_bytes(self) -> bytes:
        memory = io.BytesIO()
        torch.save({name: each.get_saved() for name, each in self._handlers.items()}, memory)
        return pickle.dumps((super().to_bytes(), memory.getvalue()))

    def from_bytes(self, saved: bytes) -> None:
        values, handled = pickle.loads(saved)
        found = torch.load(io.BytesIO(handled), map_location="cpu", **_ALL_TYPES)
        for name, handler in self._handlers.items():
            handler.set_saved(found[name])
        super().from_bytes(values)

    def _names(self) -> List[str]:
        return super()._names() + list(self._handlers)

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()

    def _receive(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super()._receive()
