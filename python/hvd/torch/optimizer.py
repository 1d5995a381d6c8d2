"""DistributedOptimizer: gradients are reduced over the ranks while backward computes the next
ones."""
import warnings
import weakref
from contextlib import contextmanager
from typing import (
    Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union,
)  # fmt: skip

import torch

from hvd import _operations as operations
from hvd._calls import Call, Description, options_of, submit
from hvd._flight import Handle
from hvd._job import ProcessSet, global_process_set, set_id
from hvd._memory import alloc_bytes
from hvd.errors import DuplicateError
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

# of these it is known when a tensor travels as it is
_OWN_COMPRESSORS = (Compression.none, Compression.fp16, Compression.bf16)
_ALIGNMENT = 64  # bytes; each gradient begins on a cache line of its own


def _window_views(parameters: Sequence[torch.Tensor]) -> Dict[torch.Tensor, torch.Tensor]:
    """Room for all gradients in one piece of memory of hvd_alloc, so that ranks of one node reduce
    them without copies."""
    offsets, total = [], 0
    for parameter in parameters:
        offsets.append(total)
        size = parameter.numel() * parameter.element_size()
        total += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    memory = alloc_bytes(max(total, _ALIGNMENT))
    views: Dict[torch.Tensor, torch.Tensor] = {}
    for parameter, offset in zip(parameters, offsets):
        if parameter.numel() > 0:
            flat = torch.frombuffer(
                memory, dtype=parameter.dtype, count=parameter.numel(), offset=offset
            )
            views[parameter] = flat.view(parameter.shape)
    return views


class _Gradient:
    """The gradient of one parameter."""

    __slots__ = ("parameter", "name", "passes", "group", "view", "call", "pending", "sparse")

    def __init__(self, parameter: torch.Tensor, name: str, passes: int):
        self.parameter, self.name = parameter, name
        self.passes = passes  # of backward, until it is reduced
        self.group: Optional[Sequence["_Gradient"]] = None  # which are reduced together
        self.view: Optional[torch.Tensor] = None  # its room in the window
        self.call: Optional[Call] = None  # that reduces it there; it is the same in each step
        self.pending: Optional[Union[Handle, "_Elsewhere", str]] = None  # while it is reduced
        self.sparse = False  # when it was last reduced

    def enter_window(self) -> bool:
        """Put the gradient into the window, if it is elsewhere. False: it cannot be there."""
        view, grad = self.view, self.parameter.grad
        if grad is view or view is None:
            return view is not None
        if grad.is_sparse or grad.dtype != view.dtype or grad.device != view.device:
            return False
        if grad.data_ptr() != view.data_ptr():
            with torch.no_grad():
                view.copy_(grad)
        self.parameter.grad = view
        return True


_OF_GROUP = "the others of its group are not there yet"


class _Elsewhere:
    """A gradient that is reduced elsewhere than in the window."""

    def __init__(
        self, gradient: _Gradient, grad: torch.Tensor, wait: Callable[[], Any],
        decompress: Callable[[Any], Any],
    ):  # fmt: skip
        self._parameter, self._grad = gradient.parameter, grad
        self._result, self._decompress = wait, decompress

    def wait(self) -> None:
        """Wait, and make it the parameter's, unless it is in its place already."""
        result, grad = self._decompress(self._result()), self._grad
        if grad.is_sparse:
            self._parameter.grad = result
        elif result.data_ptr() != grad.data_ptr() or self._parameter.grad is not grad:
            with torch.no_grad():
                grad.copy_(result)
            self._parameter.grad = grad


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


def hook_of(optimizer: "_Distributed", gradient: _Gradient) -> Callable[..., None]:
    """What backward calls when it has accumulated the gradient. It does not keep the optimizer
    alive: one that the program has dropped, to wrap the model again, reduces nothing more."""
    found = weakref.ref(optimizer)

    def hook(*_: Any) -> None:
        alive = found()
        if alive is not None:
            alive._count_pass(gradient)

    return hook


class _Distributed:
    """What DistributedOptimizer adds to the class of an optimizer."""

    def _hvd_begin(self, settings: Dict[str, Any]) -> None:
        self.op: ReduceOp = settings["op"]
        self.process_set: ProcessSet = settings["process_set"]
        self.backward_passes_per_step: int = settings["backward_passes_per_step"]
        self.gradient_predivide_factor: float = settings["gradient_predivide_factor"]
        self.sparse_as_dense: bool = settings["sparse_as_dense"]
        self._compression = settings["compression"]
        self._names = {each: name for name, each in settings["named"]}
        self._gradients: Dict[torch.Tensor, _Gradient] = {}
        self._hooks: List[Any] = []
        self._synchronized = False
        self._should_synchronize = True
        self._frozen = [each for _, each in settings["named"]]
        self._is_distributed = (
            members(self.process_set) > 1 and self.process_set.included() is not False
        )
        self._reduce_unfrozen()
        groups = _groups_of(settings["groups"], settings["num_groups"], list(self._gradients))
        if self._is_distributed:
            for group in groups:
                together = [self._gradients[each] for each in group]
                for gradient in together:
                    gradient.group = together
            if settings["gradients_in_window"]:
                self._make_window()

    def _make_window(self) -> None:
        on_host = [each for each in self._gradients if each.device.type == "cpu"]
        for parameter, view in _window_views(on_host).items():
            gradient = self._gradients[parameter]
            gradient.view = view
            own = self._compression in _OWN_COMPRESSORS
            if own and self._compression.compress(view)[0] is view:
                gradient.call = self._plan(gradient.name, view)

    # ---- Hooks ----

    def _reduce_unfrozen(self) -> None:
        """From now on reduce the gradients of parameters that needed none before."""
        unfrozen = [each for each in self._frozen if each.requires_grad]
        if not unfrozen:
            return
        self._frozen = [each for each in self._frozen if not each.requires_grad]
        for parameter in unfrozen:
            if parameter in self._gradients:  # it has two names
                continue
            gradient = _Gradient(parameter, self._names[parameter], self.backward_passes_per_step)
            self._gradients[parameter] = gradient
            if self._is_distributed:
                self._register_hook(gradient)

    def _register_hook(self, gradient: _Gradient) -> None:
        parameter, hook = gradient.parameter, hook_of(self, gradient)
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hooks.append(parameter.register_post_accumulate_grad_hook(hook))
        else:  # before torch 2.1
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            self._hooks.append((node, node.register_hook(hook)))

    def _count_pass(self, gradient: _Gradient) -> None:
        """Backward has accumulated a gradient."""
        if gradient.passes <= 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to "
                "step(). Increase backward_passes_per_step to accumulate gradients locally."
            )
        gradient.passes -= 1
        if gradient.passes == 0:
            try:
                self._submit(gradient)
            except DuplicateError as error:
                raise DuplicateError(
                    "%s. Two optimizers at work at the same time need other names each: "
                    'named_parameters=model.named_parameters(prefix="generator")' % error
                ) from None

    def _submit(self, gradient: _Gradient) -> None:
        """Submit a gradient, or its group when this was the last one missing."""
        if gradient.group is None:
            gradient.pending = self._submit_one(gradient)
            return
        gradient.pending = _OF_GROUP
        group = [each for each in gradient.group if each.parameter.requires_grad]
        if all(each.pending is not None for each in group):
            self._submit_group(group)

    def _prepare(self, gradient: _Gradient) -> torch.Tensor:
        """The gradient that is to be reduced; zeros where backward has not reached the
        parameter."""
        parameter = gradient.parameter
        if parameter.grad is None and gradient.sparse:
            parameter.grad = torch.sparse_coo_tensor(
                parameter.shape, dtype=parameter.dtype, device=parameter.device
            )
        elif parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad.is_sparse and self.sparse_as_dense:
            parameter.grad = parameter.grad.to_dense()
        gradient.sparse = parameter.grad.is_sparse
        return parameter.grad

    def _factors(self) -> Tuple[float, float]:
        factor = self.gradient_predivide_factor
        return (1.0 / factor, factor) if self.op == Average else (1.0, 1.0)

    def _submit_one(self, gradient: _Gradient) -> Union[Handle, _Elsewhere]:
        if gradient.view is None or gradient.parameter.grad is not gradient.view:
            self._prepare(gradient)
        if gradient.enter_window() and gradient.call is not None:
            return submit(gradient.call, gradient.view)
        return self._submit_elsewhere(gradient)

    def _plan(self, name: str, view: torch.Tensor) -> Call:
        """The call for a gradient in the window, which travels as it is there."""
        place = operations.adapt(view)[1].place(view)
        description = Description(1)
        description.add("allreduce." + name, place, place.address, place.address)
        wire = wire_of(self._compression, view)
        options = options_of(set_id(self.process_set), *self._factors(), wire)
        return Call("allreduce", (description.array, int(self.op), options), keep=description.keep)

    def _submit_elsewhere(self, gradient: _Gradient) -> _Elsewhere:
        grad, name = gradient.parameter.grad, gradient.name
        if grad.is_sparse:
            sparse = sparse_allreduce_async(grad, name, self.op, self.process_set)
            return self._elsewhere(gradient, grad, sparse, None)
        packed, ctx = self._compression.compress(grad.detach())
        handle = operations.allreduce_async(
            packed,
            self.op,
            "allreduce." + name,
            *self._factors(),
            wire_of(self._compression, packed),
            self.process_set,
            packed,
        )
        return self._elsewhere(gradient, grad, handle.wait, ctx)

    def _elsewhere(
        self, gradient: _Gradient, grad: torch.Tensor, wait: Callable[[], Any], ctx: Any
    ) -> _Elsewhere:
        decompress = self._compression.decompress
        return _Elsewhere(gradient, grad, wait, lambda result: decompress(result, ctx))

    def _submit_group(self, group: Sequence[_Gradient]) -> None:
        grads = [self._prepare(each) for each in group]
        if any(grad.is_sparse for grad in grads):
            for each in group:
                each.pending = self._submit_one(each)
            return
        grads = [each.view if each.enter_window() else each.parameter.grad for each in group]
        packed = [self._compression.compress(grad.detach()) for grad in grads]
        tensors = [tensor for tensor, _ in packed]
        floats = all(tensor.dtype == torch.float32 for tensor in tensors)
        handle = operations.grouped_allreduce_async(
            tensors,
            self.op,
            "grouped_allreduce." + group[0].name,
            *self._factors(),
            getattr(self._compression, "wire", None) if floats else None,
            self.process_set,
            tensors,
        )
        for i, (each, grad, (_, ctx)) in enumerate(zip(group, grads, packed)):
            each.pending = self._elsewhere(each, grad, lambda i=i: handle.wait()[i], ctx)

    # ---- What users call ----

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From now on wait for this many backward passes before gradients are reduced."""
        self.backward_passes_per_step = passes
        for each in self._gradients.values():
            each.passes = passes

    def _take_pending(self) -> List[Any]:
        """What is being reduced, and is to be waited for; backward may begin anew."""
        pending = []
        for each in self._gradients.values():
            if each.pending is not None:
                pending.append(each.pending)
                each.pending = None
            each.passes = self.backward_passes_per_step
        return pending

    def synchronize(self) -> None:
        """Wait until all gradients are reduced. step() does that itself, unless skip_synchronize
        says not to."""
        if not self._is_distributed:
            self._synchronized = True
            return
        self._reduce_unfrozen()
        for each in self._gradients.values():
            if each.pending is None and each.parameter.requires_grad:
                self._submit(each)
        # the last one that was submitted is mostly the first here; when it is done, all are
        for each in self._take_pending():
            each.wait()
        self._synchronized = True

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
            if closure is None or self._is_pending():
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
            if each not in self._names:
                self._names[each] = "allreduce.noname.%d" % len(self._names)
                self._frozen.append(each)
        self._reduce_unfrozen()

    def _is_pending(self) -> bool:
        """Is a gradient being reduced?"""
        return any(each.pending is not None for each in self._gradients.values())

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._is_pending():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause "
                "a race condition."
            )
        super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        for each in self._take_pending():
            if each is not _OF_GROUP:
                each.wait()
        self._synchronized = False
        self._should_synchronize = True
        return super().load_state_dict(*args, **kwargs)


class _DistributedAdasum(_Distributed):
    """With Adasum each rank takes its own step, and the ranks combine the changes that these
    made."""

    def _register_hook(self, gradient: _Gradient) -> None:
        """Nothing happens between backward and step."""

    def synchronize(self) -> None:
        """Nothing waits between backward and step."""

    def step(self, closure: Any = None) -> Any:
        if not self._is_distributed:
            return super().step(closure)
        self._reduce_unfrozen()
        reduced = list(self._gradients)
        starts = [each.detach().clone() for each in reduced]
        loss = super(_Distributed, self).step(closure)
        handles = []
        with torch.no_grad():
            for each, start in zip(reduced, starts):
                packed, ctx = self._compression.compress(each.detach() - start)
                name = "adasum." + self._names[each]
                handle = allreduce_async_(
                    packed, name=name, op=Adasum, process_set=self.process_set
                )
                handles.append((handle, ctx))
            for each, start, (handle, ctx) in zip(reduced, starts, handles):
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
    - sparse_as_dense: make sparse gradients dense before they are reduced. Without it a parameter
      with sparse gradients needs one on every rank in the first step; in later ones a rank whose
      backward does not reach it adds nothing.
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
