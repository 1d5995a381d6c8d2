"""State of models and optimizers, and objects, from one rank to all."""
import inspect
import itertools
from typing import Any, Dict, Iterable, List, Set, Tuple

import torch

from hvd import _objects
from hvd._job import global_process_set, rank
from hvd.errors import InvalidError
from hvd.torch._reducer import parameters_of
from hvd.torch.mpi_ops import broadcast_async_
from hvd.torch.optimizer import is_wrapped, own_class


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


# ---- The state of an optimizer ------------------------------------------------------------------


_USUAL_KEYS = {"state", "param_groups"}  # of a state_dict


class _Hole:
    """A tensor in a structure that travels as a pickle."""

    def __init__(self, number: int, tensor: torch.Tensor):
        self.number, self.shape, self.dtype = number, tuple(tensor.shape), tensor.dtype
        self.memory = tensor.device.type  # which GPU it is differs between ranks

    def is_like(self, tensor: Any) -> bool:
        """Can the root's tensor be received in this one?"""
        return (
            isinstance(tensor, torch.Tensor)
            and tensor.layout is torch.strided
            and (tuple(tensor.shape), tensor.dtype) == (self.shape, self.dtype)
            and tensor.device.type == self.memory
            and 0 not in tensor.stride()
        )


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


class _Filler:
    """Makes the structure of the root on another rank, of what that has where it is alike."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._devices = [each.device for each in parameters_of(optimizer.param_groups)]
        self._taken: Set[int] = set()
        self.tensors: Dict[int, torch.Tensor] = {}  # to be received, by the number of their hole

    def fill(self, thing: Any, own: Any) -> Any:
        """The root's thing in place of this rank's own."""
        if isinstance(thing, _Hole):
            is_new = id(own) not in self._taken
            tensor = own if is_new and thing.is_like(own) else self._room_for(thing)
            self._taken.add(id(tensor))
            self.tensors[thing.number] = tensor
            return tensor
        if isinstance(thing, dict):
            known = own if isinstance(own, dict) else {}
            filled = {key: self.fill(each, known.get(key)) for key, each in thing.items()}
            if not isinstance(own, dict):
                return filled
            own.clear()
            own.update(filled)
            return own
        if type(thing) in (list, tuple):
            known = own if isinstance(own, (list, tuple)) else ()
            pairs = itertools.zip_longest(thing, known[: len(thing)])
            return type(thing)(self.fill(each, other) for each, other in pairs)
        return thing

    def _room_for(self, hole: _Hole) -> torch.Tensor:
        """Room in the same kind of memory: on the device of this rank's parameters."""
        device = next((each for each in self._devices if each.type == hole.memory), hole.memory)
        return torch.empty(hole.shape, dtype=hole.dtype, device=device)


def _fill_in_place(optimizer: torch.optim.Optimizer, skeleton: Any, filler: _Filler) -> None:
    """Give the optimizer the root's state; groups and the state of each parameter stay the dicts
    that they are, so that schedulers see it."""
    groups, found = optimizer.param_groups, skeleton["param_groups"]
    sizes = [[len(group["params"]) for group in each] for each in (groups, found)]
    if sizes[0] != sizes[1]:
        raise InvalidError(
            "broadcast_optimizer_state: the optimizer has groups of %s parameters, the root's of "
            "%s; make the same groups on all ranks" % tuple(sizes)
        )
    for group, values in zip(groups, found):
        for key, value in values.items():
            if key != "params":
                group[key] = filler.fill(value, group.get(key))
    numbers = [number for group in found for number in group["params"]]
    parameters = dict(zip(numbers, parameters_of(groups)))
    state = {parameters.get(key, key): each for key, each in skeleton["state"].items()}
    for key in [each for each in optimizer.state if each not in state]:
        del optimizer.state[key]
    for key, values in state.items():
        optimizer.state[key] = filler.fill(values, optimizer.state.get(key))


def _needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """As LBFGS does."""
    closure = inspect.signature(own_class(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _make_state(optimizer: torch.optim.Optimizer) -> None:
    """As in Horovod, a step with zero gradients makes the state of an optimizer that has none. The
    parameters stay what they are, also if weights decay."""
    trained = [each for each in parameters_of(optimizer.param_groups) if each.requires_grad]
    values = [each.detach().clone() for each in trained]
    is_ours, only_sparse = is_wrapped(optimizer), isinstance(optimizer, torch.optim.SparseAdam)
    for each in trained:
        if not (is_ours and optimizer._make_zeros(each)):
            zeros = torch.zeros_like(each)
            each.grad = zeros.to_sparse() if only_sparse else zeros
    if is_ours:
        optimizer._step_alone()
    else:
        optimizer.step()
    with torch.no_grad():
        for each, value in zip(trained, values):
            each.copy_(value)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Any = None,
    process_set: Any = global_process_set,
) -> None:
    """Give all members the state of rank root_rank's optimizer: its tensors, numbers and options,
    in place, so that schedulers go on. As in Horovod an optimizer without a state makes a step with
    zero gradients before, which leaves the parameters as they are; but those that count their
    steps, such as Adam, then begin at 1: leave out the call where nothing was loaded. [model] is
    there for Horovod's scripts and ignored."""
    is_usual = isinstance(optimizer, torch.optim.Optimizer)
    if is_usual and len(optimizer.state) == 0 and not _needs_closure(optimizer):
        _make_state(optimizer)
    tensors: List[torch.Tensor] = []
    skeleton = _take_out(optimizer.state_dict(), tensors) if rank() == root_rank else None
    skeleton = _objects.broadcast_object(skeleton, root_rank, None, process_set)
    filler = _Filler(optimizer)
    in_place = is_usual and isinstance(skeleton, dict) and skeleton.keys() == _USUAL_KEYS
    if rank() != root_rank:
        if in_place:
            _fill_in_place(optimizer, skeleton, filler)
        else:  # of a class with a state_dict of its own
            skeleton = filler.fill(skeleton, None)
        tensors = [filler.tensors[i] for i in range(len(filler.tensors))]
    broadcast_parameters(
        [("optimizer.%d" % i, tensor) for i, tensor in enumerate(tensors)], root_rank, process_set
    )
    if rank() != root_rank and not in_place:
        optimizer.load_state_dict(skeleton)


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: Any = None, process_set: Any = global_process_set
) -> Any:
    """Every member gets a copy of the object of rank root_rank, as a pickle of any size."""
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0, name: Any = None, process_set: Any = global_process_set
) -> Any:
    """A function that broadcasts its argument."""
    return lambda obj=None: broadcast_object(obj, root_rank, name, process_set)


def allgather_object(
    obj: Any, name: Any = None, process_set: Any = global_process_set
) -> List[Any]:
    """The objects of all members, in their order, as pickles of any size."""
    return _objects.allgather_object(obj, name, process_set)
