"""The gradient of one parameter: backward announces it, and it is reduced as it is then, wherever
its memory is."""
import os
import threading
import warnings
import weakref
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from hvd import _operations as operations
from hvd._calls import Call, Description, options_of, submit
from hvd._flight import Handle
from hvd._job import ProcessSet, set_id
from hvd._operations import Average, ReduceOp, Sum
from hvd.errors import DuplicateError
from hvd.torch._window import Room, memory_order
from hvd.torch.compression import pack, unpack, wire_of
from hvd.torch.mpi_ops import members, sparse_allreduce_async


class Settings(NamedTuple):
    """How gradients are reduced."""

    op: ReduceOp
    compression: Any
    backward_passes_per_step: int
    gradient_predivide_factor: float
    sparse_as_dense: bool
    only_sparse: bool  # the optimizer takes no others
    process_set: ProcessSet
    gradients_in_window: bool

    def factors(self) -> Tuple[float, float]:
        """What inputs and results are multiplied by."""
        factor = self.gradient_predivide_factor
        return (1.0 / factor, factor) if self.op == Average else (1.0, 1.0)


class _Process:
    """Hooks may run in several threads; those of a forked child, which is no rank, do nothing."""

    lock = threading.RLock()
    is_child = False


def _after_fork() -> None:
    _Process.lock, _Process.is_child = threading.RLock(), True


os.register_at_fork(after_in_child=_after_fork)


def is_child() -> bool:
    """Is this process a forked child of a rank?"""
    return _Process.is_child


_WAITS_FOR_GROUP = "the others of its group are not there yet"


class Gradient:
    """Of one parameter. Several optimizers that own the parameter share it, so that what backward
    computes is reduced once."""

    __slots__ = (
        "parameter", "name", "settings", "passes", "group", "room", "call", "pending", "expected",
        "sparse", "waiter", "order", "_is_fresh", "_submitted", "_reducers", "_hooks",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, parameter: torch.Tensor, name: str, settings: Settings):
        self._hooks: List[Any] = []
        self.parameter, self.name, self.settings = parameter, name, settings
        self.passes = settings.backward_passes_per_step  # of backward, until it is reduced
        self.group: Optional[Sequence["Gradient"]] = None  # which are reduced together
        self.room: Optional[Room] = None  # in the window
        self.call: Optional[Call] = None  # that reduces it there; it is the same in each step
        self.pending: Optional[Union[Handle, "_Elsewhere", str]] = None  # while it is reduced
        self.expected = False  # the parameter was trained when this step's backward began
        self.sparse = settings.only_sparse  # when it was last reduced
        self.waiter: Any = None  # token of the reducer that waited last, since backward reached it
        self.order = memory_order(parameter)
        self._is_fresh = False  # backward made the tensor: nobody else has it
        self._submitted: Tuple[Any, Optional[int]] = (None, None)  # the gradient, and its version
        self._reducers: "List[weakref.ref[Any]]" = []

    # ---- Hooks ----

    def register_hooks(self) -> None:
        """From now on backward calls before_backward and after_backward. It does not keep the
        gradient alive: that of optimizers which the program has dropped is not reduced any more."""
        parameter, found = self.parameter, weakref.ref(self)

        def before(_: Any) -> None:
            gradient = found()
            if gradient is not None:
                gradient.before_backward()

        def after(*_: Any) -> None:
            gradient = found()
            if gradient is not None:
                gradient.after_backward()

        before.__torch_unserializable__ = True  # type: ignore[attr-defined] else torch.save warns
        self._hooks.append(parameter.register_hook(before))
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            after.__torch_unserializable__ = True  # type: ignore[attr-defined]
            self._hooks.append(parameter.register_post_accumulate_grad_hook(after))
        else:  # before torch 2.1
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            self._hooks.append(node.register_hook(after))
            self._hooks.append(node)  # the parameter itself does not keep it

    def remove_hooks(self) -> None:
        hooks, self._hooks = self._hooks, []
        for each in hooks:
            if hasattr(each, "remove"):
                each.remove()

    def __del__(self) -> None:
        self.remove_hooks()

    def before_backward(self) -> None:
        """Backward is about to accumulate a gradient."""
        if _Process.is_child:
            self.leave_room()
        self._is_fresh = self.parameter.grad is None

    def leave_room(self) -> None:
        """In a forked child, which shares the room with its parent: go on with a copy."""
        grad = self.parameter.grad
        if _Process.is_child and self.room is not None and self.room.holds(grad):
            self.parameter.grad = grad.clone()

    def after_backward(self) -> None:
        """Backward has accumulated it."""
        if _Process.is_child:
            return
        with _Process.lock:
            for reducer in self.reducers():
                reducer.backward_began()
            if self.passes <= 0:
                raise AssertionError(
                    "Gradients were computed more than backward_passes_per_step times before call "
                    "to step(). Increase backward_passes_per_step to accumulate gradients locally."
                )
            self.waiter = None
            self.passes -= 1
            if self._is_fresh:
                self._enter_room()
            if self.passes == 0:
                self.submit()

    # ---- Who waits for it ----

    def join(self, reducer: Any) -> None:
        """The reducer waits for this gradient, too, from the next backward on."""
        self.take_pending()
        self._reducers.append(weakref.ref(reducer))

    def rename(self, name: str) -> None:
        """The operation has this name from now on, on all ranks."""
        if name != self.name:
            self.name = name
            if self.call is not None:
                self.make_call()

    def leave(self, reducer: Any) -> None:
        self._reducers = [each for each in self._reducers if each() not in (None, reducer)]

    def reducers(self) -> List[Any]:
        """Those that wait for it."""
        return [each for each in (found() for found in self._reducers) if each is not None]

    def take_pending(self) -> Any:
        """What is to be waited for by wait; backward may begin anew."""
        pending, self.pending = self.pending, None
        self.passes = self.settings.backward_passes_per_step
        self.expected = False
        return pending

    def wait(self, pending: Any, waiter: Any) -> None:
        """Wait until it is reduced; then it is the parameter's gradient."""
        if pending is None or pending is _WAITS_FOR_GROUP:
            return
        result, grad = pending.wait(), self.parameter.grad
        self.waiter = waiter
        submitted, version = self._submitted
        self._submitted = (None, None)
        if grad is not submitted or (version is not None and grad._version != version):
            self._warn_of_change()
        if type(pending) is not Handle:
            self._put(result)
        elif grad is not result or not self.room.holds(grad):
            self._put(result if self.room.holds(result) else self.room.tensor())

    def _warn_of_change(self) -> None:
        warnings.warn(
            "the gradient of %r was changed between backward and step, while it was reduced: the "
            "change is lost, or ranks have different values now. Call optimizer.synchronize() "
            "before, and optimizer.step() within optimizer.skip_synchronize()" % self.name
        )

    def _put(self, result: torch.Tensor) -> None:
        """Make this the gradient, in the memory that it has now if that is possible."""
        grad = self.parameter.grad
        if grad is None or result.is_sparse or not _alike(grad, result):
            self.parameter.grad = result
        elif grad.data_ptr() != result.data_ptr() or grad.stride() != result.stride():
            grad.detach().copy_(result)

    # ---- Where it is ----

    def make_call(self) -> None:
        """Plan the call for the gradient in its room."""
        tensor = self.in_order(self.room.tensor())
        place = operations.adapt(tensor)[1].place(tensor)
        description = Description(1)
        description.add("allreduce." + self.name, place, place.address, place.address)
        settings = self.settings
        wire = wire_of(settings.compression, tensor)
        options = options_of(set_id(settings.process_set), *settings.factors(), wire)
        keep = (description.keep, self.room)
        self.call = Call("allreduce", (description.array, int(settings.op), options), keep=keep)

    def in_order(self, grad: torch.Tensor) -> torch.Tensor:
        """The gradient as it travels, in the order of its elements in memory. The dimension that it
        gets tells ranks whose parameter lies otherwise in memory that theirs is another shape."""
        return grad if self.order is None else grad.permute(self.order).unsqueeze(0)

    def out_of_order(self, result: torch.Tensor) -> torch.Tensor:
        """What in_order gave, as the parameter has it."""
        if self.order is None:
            return result
        places = sorted(range(len(self.order)), key=self.order.__getitem__)
        return result.squeeze(0).permute(places)

    def _enter_room(self) -> None:
        """Move a gradient into its room. Only for one that nobody else has."""
        self._is_fresh = False
        grad, room = self.parameter.grad, self.room
        if room is not None and room.fits(grad) and not grad.requires_grad and room.is_free():
            inside = room.tensor()
            inside.copy_(grad)
            self.parameter.grad = inside

    def _staged(self) -> Optional[torch.Tensor]:
        """A tensor in the room with the gradient's elements: the gradient itself or a copy. None if
        there is no room."""
        grad, room = self.parameter.grad, self.room
        if room is None or room.holds(grad):
            return None if room is None else grad
        if not room.fits(grad) or not room.is_free():
            return None
        inside = room.tensor()
        inside.copy_(grad.detach())
        return inside

    def prepare(self) -> None:
        """See that there is a gradient: zeros if backward has not reached the parameter."""
        parameter, room = self.parameter, self.room
        if parameter.grad is None and self.sparse:
            parameter.grad = torch.sparse_coo_tensor(
                parameter.shape, dtype=parameter.dtype, device=parameter.device
            )
        elif parameter.grad is None and room is not None and room.is_free():
            parameter.grad = room.tensor().zero_()
        elif parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        grad = parameter.grad
        if grad.is_sparse and self.settings.sparse_as_dense and not self.settings.only_sparse:
            parameter.grad = grad.to_dense()
        elif grad.layout is torch.strided and 0 in grad.stride():  # as of expand: shares memory
            parameter.grad = grad.clone(memory_format=torch.contiguous_format)
        self.sparse = parameter.grad.is_sparse

    # ---- Submitting ----

    def submit(self, waiter: Any = None) -> None:
        """Submit it, or its group when this was the last one missing. [waiter] is the token of the
        reducer that asks for it, unless backward does."""
        if waiter is not None:
            self._divide_again(waiter)
        if self.group is None:
            self.pending = self._submit_one()
            return
        self.pending = _WAITS_FOR_GROUP
        group = [each for each in self.group if each.expected or each.parameter.requires_grad]
        if all(each.pending is not None for each in group):
            _submit_group(group)

    def _divide_again(self, waiter: Any) -> None:
        """A sum that another optimizer has waited for already stays what it is, when ranks add it
        up again."""
        grad, settings = self.parameter.grad, self.settings
        if self.waiter not in (None, waiter) and settings.op == Sum and grad is not None:
            grad.detach().div_(members(settings.process_set))

    def _submit_one(self) -> Union[Handle, "_Elsewhere"]:
        grad = self.parameter.grad
        if self.call is None or not self.room.holds(grad):
            self.prepare()
            grad = self._staged() if self.call is not None else None
        try:
            self._note_submitted()
            if grad is not None:
                return submit(self.call, grad)
            return self._submit_elsewhere()
        except DuplicateError as error:
            raise DuplicateError(
                "%s. Two optimizers at work at the same time need other names each: "
                'named_parameters=model.named_parameters(prefix="generator")' % error
            ) from None

    def _note_submitted(self) -> None:
        grad = self.parameter.grad
        # a view has the version of the whole tensor, of which other gradients may be views, too
        self._submitted = (grad, None if grad._is_view() else grad._version)

    def _submit_elsewhere(self) -> "_Elsewhere":
        """Submit it where it is."""
        grad, settings = self.parameter.grad, self.settings
        if grad.is_sparse:
            sparse = sparse_allreduce_async(grad, self.name, settings.op, settings.process_set)
            return _Elsewhere(self, sparse.wait, None)
        packed, ctx = pack(settings.compression, self.in_order(grad.detach()))
        handle = operations.allreduce_async(
            packed,
            settings.op,
            "allreduce." + self.name,
            *settings.factors(),
            wire_of(settings.compression, packed),
            settings.process_set,
            packed,
        )
        return _Elsewhere(self, handle.wait, ctx)


class _Elsewhere:
    """A gradient that is reduced elsewhere than in the window, or in a group."""

    def __init__(self, gradient: Gradient, wait: Callable[[], Any], ctx: Any):
        self._gradient, self._wait, self._ctx = gradient, wait, ctx

    def wait(self) -> torch.Tensor:
        """Wait; returns the result."""
        gradient = self._gradient
        result = unpack(gradient.settings.compression, self._wait(), self._ctx)
        return result if result.is_sparse else gradient.out_of_order(result)


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Can one be copied into the other without a loss?"""
    return (
        one.layout is other.layout
        and one.dtype is other.dtype
        and one.device == other.device
        and one.shape == other.shape
        and 0 not in one.stride()
    )


def _submit_group(group: Sequence[Gradient]) -> None:
    for each in group:
        each.prepare()
    if any(each.parameter.grad.is_sparse for each in group):
        for each in group:
            each.pending = each._submit_one()
        return
    settings, tensors, contexts = group[0].settings, [], []
    for each in group:
        each._note_submitted()
        staged = each._staged()
        grad = each.parameter.grad.detach() if staged is None else staged
        packed, ctx = pack(settings.compression, each.in_order(grad))
        tensors.append(packed)
        contexts.append(ctx)
    handle = operations.grouped_allreduce_async(
        tensors,
        settings.op,
        "grouped_allreduce." + group[0].name,
        *settings.factors(),
        wire_of(settings.compression, *tensors),
        settings.process_set,
        tensors,
    )
    for i, (each, ctx) in enumerate(zip(group, contexts)):
        each.pending = _Elsewhere(each, lambda i=i: handle.wait()[i], ctx)
