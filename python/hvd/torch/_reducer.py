"""The gradients of all parameters of an optimizer: which it owns, and when it waits for them."""
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from hvd._job import at_start, is_initialized
from hvd._operations import Adasum
from hvd.errors import InvalidError, StateError
from hvd.torch._gradient import Gradient, Settings, is_child
from hvd.torch._window import make_rooms
from hvd.torch.compression import travels_as_it_is
from hvd.torch.mpi_ops import members

# the gradient of each parameter that is reduced, by the parameter's id
_gradients: "weakref.WeakValueDictionary[int, Gradient]" = weakref.WeakValueDictionary()
_reducers: "weakref.WeakSet[Reducer]" = weakref.WeakSet()


def _end_all() -> None:
    """A job or an epoch has begun. All reducers end what they have of the one before, until the
    first of them is used: several may share a gradient."""
    for each in list(_reducers):
        each.end()


at_start.append(_end_all)


def parameters_of(param_groups: Sequence[Dict[str, Any]]) -> List[torch.Tensor]:
    """The parameters of an optimizer."""
    return [each for group in param_groups for each in group["params"]]


class Unbound(NamedTuple):
    """What the reducer of a copied or loaded optimizer is made of, as soon as there is a job."""

    settings: Settings
    names: List[str]  # of the optimizer's parameters, in their order
    groups: List[List[int]]  # numbers of parameters

    def bind(self, param_groups: Sequence[Dict[str, Any]]) -> "Reducer":
        """The reducer for these groups."""
        own = parameters_of(param_groups)
        groups = [[own[i] for i in group] for group in self.groups]
        return Reducer(self.settings, dict(zip(own, self.names)), groups, param_groups)


class Reducer:
    """Reduces the gradients of an optimizer's parameters, and of no others."""

    def __init__(
        self,
        settings: Settings,
        names: Dict[torch.Tensor, str],
        groups: Sequence[Sequence[torch.Tensor]],
        param_groups: Sequence[Dict[str, Any]],
    ):
        if not is_initialized():
            raise StateError("hvd is not initialised; call hvd.init before DistributedOptimizer")
        self.settings, self.names, self.groups = settings, names, groups
        self.gradients: Dict[torch.Tensor, Gradient] = {}  # of parameters that need or needed one
        self.lost: Optional[str] = None  # a name: another optimizer reduces it in another way
        self._token = object()
        self._own: List[torch.Tensor] = []
        self._own_ids: List[int] = []
        self._frozen: List[torch.Tensor] = []
        self._has_begun = False  # backward of this step
        self._begin_job()
        self.update(param_groups)
        self._form_groups()
        _reducers.add(self)

    def unbound(self) -> Unbound:
        """What makes another one like this."""
        numbers = {each: i for i, each in enumerate(self._own)}
        groups = [[numbers[each] for each in group if each in numbers] for group in self.groups]
        return Unbound(self.settings, [self.names[each] for each in self._own], groups)

    def __deepcopy__(self, memo: Dict[int, Any]) -> Unbound:
        return self.unbound()

    def __reduce__(self) -> Tuple[Any, ...]:
        return Unbound, tuple(self.unbound())

    # ---- Jobs, and epochs of an elastic one ----

    def _begin_job(self) -> None:
        included = self.settings.process_set.included() is not False
        self.is_distributed = included and members(self.settings.process_set) > 1
        self.has_ended = False

    def end(self) -> None:
        """The job that it was made for has ended: with it operations, and gradients that backward
        has computed since the last step; their memory is none of the next job's."""
        for parameter, gradient in self.gradients.items():
            gradient.remove_hooks()
            gradient.leave(self)
            gradient.group = None
            _gradients.pop(id(parameter), None)
        for parameter in self._own:
            parameter.grad = None
        self.gradients = {}
        self.has_ended = True

    def begin_anew(self, param_groups: Sequence[Dict[str, Any]]) -> None:
        """Reduce over the ranks of the job that there is now."""
        self._begin_job()
        self._has_begun = False
        self._own_ids = []
        self.update(param_groups)
        self._form_groups()

    # ---- Which gradients ----

    def update(self, param_groups: Sequence[Dict[str, Any]]) -> None:
        """Begin with parameters that the optimizer got since the last time, and with frozen ones
        that are trained now; leave those that it lost."""
        own = parameters_of(param_groups)
        ids = list(map(id, own))
        if ids != self._own_ids:
            self._own, self._own_ids, wanted = own, ids, set(ids)
            for parameter in [each for each in self.gradients if id(each) not in wanted]:
                self.gradients.pop(parameter).leave(self)
            for parameter in own:
                self.names.setdefault(parameter, "allreduce.noname.%d" % len(self.names))
            self._frozen = [each for each in own if each not in self.gradients]
        unfrozen = [each for each in self._frozen if each.requires_grad]
        if unfrozen:
            self._frozen = [each for each in self._frozen if not each.requires_grad]
            if self.is_distributed:
                self._begin(unfrozen)

    def _begin(self, parameters: Sequence[torch.Tensor]) -> None:
        for each in parameters:
            if each not in self.gradients:
                self.gradients[each] = self._gradient_of(each)
        if self.settings.gradients_in_window and self.settings.op != Adasum:
            self._make_rooms([self.gradients[each] for each in parameters])

    def _gradient_of(self, parameter: torch.Tensor) -> Gradient:
        """The gradient of this parameter: that of other optimizers if it is reduced as here."""
        name, known = self.names[parameter], _gradients.get(id(parameter))
        if known is not None and known.settings == self.settings and not self.groups:
            if known.group is None:
                known.join(self)
                known.rename(name)
                return known
        if known is not None:
            known.remove_hooks()
            for each in known.reducers():
                each.lost = known.name
        made = Gradient(parameter, name, self.settings)
        made.join(self)
        if self.settings.op != Adasum:  # there nothing happens between backward and step
            _gradients[id(parameter)] = made
            made.register_hooks()
        return made

    def _make_rooms(self, gradients: Sequence[Gradient]) -> None:
        compression = self.settings.compression
        without = [
            each
            for each in gradients
            if each.room is None
            and each.parameter.device.type == "cpu"
            and each.parameter.numel() > 0
            and travels_as_it_is(compression, each.parameter.dtype)
        ]
        if without:
            for each, room in zip(without, make_rooms([each.parameter for each in without])):
                each.room = room
                each.make_call()

    def _form_groups(self) -> None:
        for group in self.groups:
            together = [self.gradients[each] for each in group if each in self.gradients]
            for gradient in together:
                gradient.group = together

    # ---- Waiting ----

    def backward_began(self) -> None:
        """Backward has computed a gradient. Parameters that are frozen from now on are reduced in
        this step nevertheless: backward may have reached them on other ranks."""
        if not self._has_begun:
            self._has_begun = True
            for each in self.gradients.values():
                each.expected = each.parameter.requires_grad

    def is_pending(self) -> bool:
        """Is a gradient being reduced?"""
        return any(each.pending is not None for each in self.gradients.values())

    def synchronize(self, param_groups: Sequence[Dict[str, Any]]) -> None:
        """Wait until all gradients are reduced; submit those that backward did not reach."""
        if not self.is_distributed:
            return
        self.update(param_groups)
        if self.lost is not None:
            raise InvalidError(
                "the parameter %r belongs also to a DistributedOptimizer that was made later, with "
                "other settings: give both the same settings, and no groups, or make one optimizer "
                "with several parameter groups" % self.lost
            )
        for each in self.gradients.values():
            if each.pending is None and (each.expected or each.parameter.requires_grad):
                each.submit(self._token)
        self.wait()

    def wait(self) -> None:
        """Wait for what has been submitted; backward may begin anew."""
        # the last one that was submitted is mostly the first here; when it is done, all are
        pending = [(each, each.take_pending()) for each in self.gradients.values()]
        self._has_begun = False
        for gradient, submitted in pending:
            gradient.wait(submitted, self._token)

    def leave_rooms(self) -> None:
        """In a forked child: go on with copies of the gradients that it shares with its parent."""
        if is_child():
            for each in self.gradients.values():
                each.leave_room()

    def set_passes(self, passes: int) -> None:
        """From now on wait for this many backward passes."""
        self.settings = self.settings._replace(backward_passes_per_step=passes)
        for each in self.gradients.values():
            each.settings, each.passes = self.settings, passes

    def make_zeros(self, parameter: torch.Tensor) -> bool:
        """Make the gradient of this parameter zero, in the window if it has room there. False: it
        is none of those that are reduced."""
        gradient = self.gradients.get(parameter)
        if gradient is not None:
            parameter.grad = None
            gradient.prepare()
        return gradient is not None
