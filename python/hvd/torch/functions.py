"""State of models and optimizers, and objects, from one rank to all."""
from typing import Any, Iterable, List, Tuple

import torch

from hvd import _objects
from hvd._job import global_process_set, rank
from hvd.errors import InvalidError
from hvd.torch.mpi_ops import broadcast_async_


def _named(params: Any) -> List[Tuple[Any, Any]]:
    if isinstance(params, dict):
        return sorted(params.items())
    if isinstance(params, (str, torch.Tensor)) or not isinstance(params, Iterable):
        raise ValueError("invalid params of type: %s" % type(params))
    return [each if isinstance(each, tuple) else (None, each) for each in params]


def broadcast_parameters(
    params: Any, root_rank: int, process_set: Any = global_process_set
) -> None:
    """Give all members the parameters of rank root_rank, in place: model.state_dict(),
    model.named_parameters(), or a list of tensors."""
    named = [(name, each) for name, each in _named(params) if each is not None]
    for name, each in named:
        if not isinstance(each, torch.Tensor):
            raise InvalidError(
                "broadcast_parameters: %s is of type %s, not a tensor; send it by broadcast_object"
                % ("an element" if name is None else repr(name), type(each).__name__)
            )
    handles = [broadcast_async_(each, root_rank, name, process_set) for name, each in named]
    for handle in handles:
        handle.wait()


class _Hole:
    """Where a tensor was in a structure that travels as a pickle."""

    def __init__(self, number: int, tensor: torch.Tensor):
        self.number, self.shape, self.dtype = number, tuple(tensor.shape), tensor.dtype
        self.memory = tensor.device.type  # which GPU it is differs between ranks


def _take_out(thing: Any, tensors: List[torch.Tensor]) -> Any:
    """The structure with holes in place of its tensors, which are added to the list."""
    if isinstance(thing, torch.Tensor):
        tensors.append(thing)
        return _Hole(len(tensors) - 1, thing)
    if isinstance(thing, dict):
        return {key: _take_out(value, tensors) for key, value in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(_take_out(each, tensors) for each in thing)
    return thing


def _holes(thing: Any) -> List[_Hole]:
    if isinstance(thing, _Hole):
        return [thing]
    inner = thing.values() if isinstance(thing, dict) else thing
    if isinstance(thing, (dict, list, tuple)):
        return [hole for each in inner for hole in _holes(each)]
    return []


def _room_for(hole: _Hole, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """Room for a tensor of the root, in the same kind of memory: where parameters of this rank
    are."""
    own = (each.device for group in optimizer.param_groups for each in group["params"])
    device = next((each for each in own if each.type == hole.memory), hole.memory)
    return torch.empty(hole.shape, dtype=hole.dtype, device=device)


def _fill(thing: Any, tensors: List[torch.Tensor]) -> Any:
    if isinstance(thing, _Hole):
        return tensors[thing.number]
    if isinstance(thing, dict):
        return {key: _fill(value, tensors) for key, value in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(_fill(each, tensors) for each in thing)
    return thing


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Any = None,
    process_set: Any = global_process_set,
) -> None:
    """Give all members the state of rank root_rank's optimizer: its tensors, numbers and options.
    [model] is there for Horovod's scripts and ignored."""
    tensors: List[torch.Tensor] = []
    skeleton = _take_out(optimizer.state_dict(), tensors) if rank() == root_rank else None
    skeleton = _objects.broadcast_object(skeleton, root_rank, None, process_set)
    if rank() != root_rank:
        holes = sorted(_holes(skeleton), key=lambda hole: hole.number)
        tensors = [_room_for(hole, optimizer) for hole in holes]
    broadcast_parameters(
        [("optimizer.%d" % i, tensor) for i, tensor in enumerate(tensors)], root_rank, process_set
    )
    if rank() != root_rank:
        optimizer.load_state_dict(_fill(skeleton, tensors))


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: Any = None, process_set: Any = global_process_set
) -> Any:
    """Every member gets a copy of the object of rank root_rank, as a pickle."""
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0, name: Any = None, process_set: Any = global_process_set
) -> Any:
    """A function that broadcasts its argument."""
    return lambda obj=None: broadcast_object(obj, root_rank, name, process_set)


def allgather_object(
    obj: Any, name: Any = None, process_set: Any = global_process_set
) -> List[Any]:
    """The objects of all members, in their order, as pickles."""
    return _objects.allgather_object(obj, name, process_set)
