"""DistributedOptimizer: gradients are reduced over the ranks while backward computes the next
ones."""
import warnings
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from hvd import _operations as operations
from hvd._calls import Call, Description, options_of, submit
from hvd._job import ProcessSet, global_process_set, set_id
from hvd._memory import alloc_bytes
from hvd.torch.compression import Compression, wire_of
from hvd.torch.mpi_ops import (
    Adasum,
    Average,
    ReduceOp,
    allreduce_async_,
    members,
    sparse_allreduce_async,
    split_list,
)

_ALIGNMENT = 64  # bytes; each gradient begins on a cache line of its own


class _Window:
    """Room for all gradients in memory of hvd_alloc, so that ranks of one node reduce them without
    copies."""

    def __init__(self, parameters: Sequence[torch.Tensor]):
        offsets, total = [], 0
        for parameter in parameters:
            offsets.append(total)
            size = parameter.numel() * parameter.element_size()
            total += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        memory = alloc_bytes(max(total, _ALIGNMENT))
        self.views: Dict[torch.Tensor, torch.Tensor] = {}
        for parameter, offset in zip(parameters, offsets):
            if parameter.numel() > 0:
                flat = torch.frombuffer(
                    memory, dtype=parameter.dtype, count=parameter.numel(), offset=offset
                )
                self.views[parameter] = flat.view(parameter.shape)

    def take(self, parameter: torch.Tensor) -> None:
        """Put the parameter's gradient into the window, if it is elsewhere."""
        view, grad = self.views.get(parameter), parameter.grad
        if view is None or grad is view or grad.dtype != view.dtype or grad.device != view.device:
            return
        if grad.data_ptr() != view.data_ptr():
            with torch.no_grad():
                view.copy_(grad)
        parameter.grad = view


def _named(
    optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]]
) -> List[Tuple[str, torch.Tensor]]:
    """Names and parameters, checked to be all of the optimizer's."""
    own = [each for group in optimizer.param_groups for each in group["params"]]
    if named_parameters is None:
        return [("allreduce.noname.%d" % i, each) for i, each in enumerate(own)]
    named = list(named_parameters)
    if any(not isinstance(each, tuple) for each in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually "
            "produced by model.named_parameters()."
        )
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            "Parameter names in named_parameters must be unique. Found duplicates: %s"
            % ", ".join(twice)
        )
    known = {id(each) for _, each in named}
    missing = [tuple(each.shape) for each in own if id(each) not in known]
    if missing:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named. "
            "Their shapes: %s" % missing
        )
    return named


def _groups_of(
    groups: Any, num_groups: int, parameters: Sequence[torch.Tensor]
) -> List[Sequence[torch.Tensor]]:
    """Which gradients are reduced together; the others are alone."""
    if num_groups > 0:
        warnings.warn("num_groups is deprecated; give groups instead", DeprecationWarning)
        groups = num_groups if groups is None else groups
    if groups is None:
        return []
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(
                "groups should be a non-negative integer or a list of list of torch.Tensor."
            )
        return split_list(list(parameters), groups) if groups else []
    lists = [list(each) for each in groups]
    if any(not isinstance(each, torch.Tensor) for group in lists for each in group):
        raise ValueError("groups should consist of torch.Tensor.")
    found = [id(each) for group in lists for each in group]
    if len(set(found)) != len(found):
        raise ValueError("A parameter can only appear once in groups.")
    wanted = {id(each) for each in parameters}
    return [[each for each in group if id(each) in wanted] for group in lists if group]


def _hook_of(optimizer: "_Distributed", parameter: torch.Tensor) -> Callable[..., None]:
    """What backward calls when it has accumulated the gradient. It does not keep the optimizer
    alive: one that the program has dropped, to wrap the model again, reduces nothing more."""
    found = weakref.ref(optimizer)

    def hook(*_: Any) -> None:
        alive = found()
        if alive is not None:
            alive._hook(parameter)

    return hook


def _result_of(handle: Any) -> torch.Tensor:
    """Wait for what _submit_one or _submit_group gave: a handle, or a function for each of a
    group."""
    return handle() if callable(handle) else handle.wait()


class _Distributed:
    """What DistributedOptimizer adds to the class of an optimizer."""

    def _hvd_begin(self, settings: Dict[str, Any]) -> None:
        self.op: ReduceOp = settings["op"]
        self.process_set: ProcessSet = settings["process_set"]
        self.backward_passes_per_step: int = settings["backward_passes_per_step"]
        self.gradient_predivide_factor: float = settings["gradient_predivide_factor"]
        self.sparse_as_dense: bool = settings["sparse_as_dense"]
        self._compression = settings["compression"]
        self._parameter_names = {each: name for name, each in settings["named"]}
        self._handles: Dict[torch.Tensor, Any] = {}
        self._groups: Dict[torch.Tensor, Sequence[torch.Tensor]] = {}
        self._hooks: List[Any] = []
        self._window: Optional[_Window] = None
        self._plans: Dict[torch.Tensor, Call] = {}
        self._synchronized = False
        self._should_synchronize = True
        self._reduced: List[torch.Tensor] = []
        self._delays: Dict[torch.Tensor, int] = {}
        self._frozen = [each for _, each in settings["named"]]
        self._is_distributed = (
            members(self.process_set) > 1 and self.process_set.included() is not False
        )
        self._reduce_unfrozen()
        groups = _groups_of(settings["groups"], settings["num_groups"], self._reduced)
        if self._is_distributed:
            for group in groups:
                self._groups.update((each, group) for each in group)
            if settings["gradients_in_window"]:
                on_host = [each for each in self._reduced if each.device.type == "cpu"]
                self._window = _Window(on_host)

    # ---- Hooks ----

    def _reduce_unfrozen(self) -> None:
        """From now on reduce the gradients of parameters that needed none before."""
        unfrozen = [each for each in self._frozen if each.requires_grad]
        if not unfrozen:
            return
        self._frozen = [each for each in self._frozen if not each.requires_grad]
        self._reduced += unfrozen
        self._delays.update((each, self.backward_passes_per_step) for each in unfrozen)
        if self._is_distributed:
            for each in unfrozen:
                self._register_hook(each)

    def _register_hook(self, parameter: torch.Tensor) -> None:
        hook = _hook_of(self, parameter)
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hooks.append(parameter.register_post_accumulate_grad_hook(hook))
        else:  # before torch 2.1
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            self._hooks.append((node, node.register_hook(hook)))

    def _hook(self, parameter: torch.Tensor) -> None:
        """Backward has accumulated a gradient."""
        if self._delays[parameter] <= 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to "
                "step(). Increase backward_passes_per_step to accumulate gradients locally."
            )
        self._delays[parameter] -= 1
        if self._delays[parameter] == 0:
            self._submit(parameter)

    def _submit(self, parameter: torch.Tensor) -> None:
        """Submit a gradient, or its group when this was the last one missing."""
        group = self._groups.get(parameter)
        if group is None:
            self._handles[parameter] = self._submit_one(parameter)
            return
        self._handles[parameter] = None
        if all(each in self._handles for each in group):
            for each, handle in zip(group, self._submit_group(group)):
                self._handles[each] = handle

    def _prepare(self, parameter: torch.Tensor) -> torch.Tensor:
        """The gradient that is to be reduced; zeros where backward has not reached the
        parameter."""
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad.is_sparse and self.sparse_as_dense:
            parameter.grad = parameter.grad.to_dense()
        if self._window is not None and not parameter.grad.is_sparse:
            self._window.take(parameter)
        return parameter.grad

    def _factors(self) -> Tuple[float, float]:
        factor = self.gradient_predivide_factor
        return (1.0 / factor, factor) if self.op == Average else (1.0, 1.0)

    def _submit_one(self, parameter: torch.Tensor) -> Any:
        grad = self._prepare(parameter)
        name = self._parameter_names[parameter]
        if grad.is_sparse:
            return sparse_allreduce_async(grad, name, self.op, self.process_set), None, grad
        packed, ctx = self._compression.compress(grad.detach())
        if packed.data_ptr() == grad.data_ptr() and self._window is not None:
            view = self._window.views.get(parameter)
            if view is not None and (grad is view or grad.data_ptr() == view.data_ptr()):
                return submit(self._planned(parameter, name, view), view), ctx, grad
        prescale, postscale = self._factors()
        handle = operations.allreduce_async(
            packed,
            self.op,
            "allreduce." + name,
            prescale,
            postscale,
            wire_of(self._compression, packed),
            self.process_set,
            packed,
        )
        return handle, ctx, grad

    def _planned(self, parameter: torch.Tensor, name: str, view: torch.Tensor) -> Call:
        """The call for a gradient in the window: it is always at the same place."""
        call = self._plans.get(parameter)
        if call is None:
            place = operations.adapt(view)[1].place(view)
            description = Description(1)
            description.add("allreduce." + name, place, place.address, place.address)
            wire = wire_of(self._compression, view)
            options = options_of(set_id(self.process_set), *self._factors(), wire)
            arguments = (description.array, int(self.op), options)
            call = self._plans[parameter] = Call("allreduce", arguments, keep=description.keep)
        return call

    def _submit_group(self, group: Sequence[torch.Tensor]) -> List[Any]:
        grads = [self._prepare(each) for each in group]
        if any(grad.is_sparse for grad in grads):
            return [self._submit_one(each) for each in group]
        packed = [self._compression.compress(grad.detach()) for grad in grads]
        tensors = [tensor for tensor, _ in packed]
        floats = all(tensor.dtype == torch.float32 for tensor in tensors)
        prescale, postscale = self._factors()
        handle = operations.grouped_allreduce_async(
            tensors,
            self.op,
            "grouped_allreduce." + self._parameter_names[group[0]],
            prescale,
            postscale,
            getattr(self._compression, "wire", None) if floats else None,
            self.process_set,
            tensors,
        )
        return [
            (lambda i=i: handle.wait()[i], ctx, grad)
            for i, ((_, ctx), grad) in enumerate(zip(packed, grads))
        ]

    # ---- What users call ----

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From now on wait for this many backward passes before gradients are reduced."""
        self.backward_passes_per_step = passes
        self._delays = {each: passes for each in self._delays}

    def synchronize(self) -> None:
        """Wait until all gradients are reduced. step() does that itself, unless skip_synchronize
        says not to."""
        if not self._is_distributed:
            self._synchronized = True
            return
        self._reduce_unfrozen()
        for parameter in self._reduced:
            if parameter not in self._handles and parameter.requires_grad:
                self._submit(parameter)
        handles, self._handles = self._handles, {}
        for parameter, (handle, ctx, grad) in handles.items():
            result = _result_of(handle)
            self._delays[parameter] = self.backward_passes_per_step
            self._store(parameter, grad, self._compression.decompress(result, ctx))
        self._synchronized = True

    @staticmethod
    def _store(parameter: torch.Tensor, grad: torch.Tensor, result: torch.Tensor) -> None:
        """The reduced gradient becomes the parameter's, unless it is in its place already."""
        if grad.is_sparse:
            parameter.grad = result
        elif result.data_ptr() != grad.data_ptr() or parameter.grad is not grad:
            with torch.no_grad():
                grad.copy_(result)
            parameter.grad = grad

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it step() does not call synchronize(), because the program has done so."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Any = None) -> Any:
        if self._should_synchronize:
            if self._synchronized and self._is_distributed:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). This can cause training slowdown."
                )
            if closure is None or self._handles:
                self.synchronize()
            if closure is not None:
                closure = self._synchronizing(closure)
        try:
            return super().step(closure)
        finally:
            self._synchronized = False

    # torch profiles steps and calls hooks of users around the step of the optimizer's own class
    step.hooked = True  # type: ignore[attr-defined]

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """A closure that computes gradients, after which they are reduced."""

        def synchronized() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        return synchronized

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Add parameters, on all ranks the same. Their gradients are reduced as well."""
        super().add_param_group(param_group)
        for each in self.param_groups[-1]["params"]:
            if each not in self._parameter_names:
                self._parameter_names[each] = "allreduce.noname.%d" % len(self._parameter_names)
                self._frozen.append(each)
        self._reduce_unfrozen()

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._handles:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause "
                "a race condition."
            )
        super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        for handle in self._handles.values():
            if handle is not None:
                _result_of(handle[0])
        self._handles = {}
        self._synchronized = False
        self._should_synchronize = True
        self._delays = {each: self.backward_passes_per_step for each in self._delays}
        return super().load_state_dict(*args, **kwargs)


class _DistributedAdasum(_Distributed):
    """With Adasum each rank takes its own step, and the ranks combine the changes that these
    made."""

    def _register_hook(self, parameter: torch.Tensor) -> None:
        """Nothing happens between backward and step."""

    def synchronize(self) -> None:
        """Nothing waits between backward and step."""

    def step(self, closure: Any = None) -> Any:
        if not self._is_distributed:
            return super().step(closure)
        self._reduce_unfrozen()
        starts = [each.detach().clone() for each in self._reduced]
        loss = super(_Distributed, self).step(closure)
        handles = []
        with torch.no_grad():
            for each, start in zip(self._reduced, starts):
                packed, ctx = self._compression.compress(each.detach() - start)
                name = "adasum." + self._parameter_names[each]
                handle = allreduce_async_(
                    packed, name=name, op=Adasum, process_set=self.process_set
                )
                handles.append((handle, ctx))
            for each, start, (handle, ctx) in zip(self._reduced, starts, handles):
                each.copy_(start + self._compression.decompress(handle.wait(), ctx))
        return loss


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    gradients_in_window: bool = True,
) -> torch.optim.Optimizer:
    """Wrap an optimizer: each gradient is submitted as soon as backward has computed it, and step()
    waits until all are reduced over the process set. With step(closure) those that the closure
    computes are reduced each time it is called; where the optimizer looks at the loss, as LBFGS
    does, let the closure return the ranks' average.

    - named_parameters: names for the operations, usually model.named_parameters(); the same on all
      ranks.
    - compression: how gradients travel, see Compression.
    - backward_passes_per_step: gradients of so many backward passes are added up before they are
      reduced.
    - op: Average, Sum or Adasum; with Adasum the changes that each rank's own step makes are
      combined.
    - gradient_predivide_factor: with Average, divide by it before the sum, by size / factor after.
    - groups: a number of groups of gradients that are reduced together, or lists of parameters.
    - num_groups: the older name of such a number.
    - sparse_as_dense: make sparse gradients dense before they are reduced.
    - process_set: the ranks that share the model.
    - gradients_in_window: put gradients into memory that all ranks of the node reach (hvd_alloc),
      where they are reduced without copies; False leaves them where backward puts them."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step < 1:
        raise ValueError("backward_passes_per_step must be > 0")
    if op == Adasum and process_set is not global_process_set:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    base = optimizer.__class__
    if isinstance(optimizer, _Distributed):  # wrapped before
        base = base.__bases__[1]
    mixin = _DistributedAdasum if op == Adasum else _Distributed
    made = type(base.__name__, (mixin, base), {"__module__": __name__})
    wrapped = made.__new__(made)
    # the wrapped one shares state and groups with the given one, to which a scheduler may hold on
    wrapped.__dict__.update(
        (key, value) for key, value in optimizer.__dict__.items() if key != "step"
    )
    settings = {
        "named": _named(optimizer, named_parameters),
        "compression": compression,
        "backward_passes_per_step": backward_passes_per_step,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "num_groups": num_groups,
        "groups": groups,
        "sparse_as_dense": sparse_as_dense,
        "process_set": process_set,
        "gradients_in_window": gradients_in_window,
    }
    wrapped._hvd_begin(settings)
    return wrapped
