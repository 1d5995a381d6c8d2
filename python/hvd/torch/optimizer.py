"""DistributedOptimizer: gradients are reduced over the ranks while backward computes the next
ones."""
import functools
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from hvd._job import ProcessSet, global_process_set, is_initialized
from hvd.torch._gradient import Gradient, Settings
from hvd.torch._reducer import Reducer, Unbound, parameters_of
from hvd.torch.compression import Compression, pack, unpack
from hvd.torch.mpi_ops import Adasum, Average, ReduceOp, allreduce_async_, split_list


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


def _replace(optimizer: torch.optim.Optimizer, state: Any, param_groups: Any) -> None:
    """Give an optimizer this state and these groups. The dicts that it has stay its own, as
    schedulers and programs know them."""
    known_state, known_groups = optimizer.state, optimizer.param_groups
    if known_groups is not param_groups:
        for known, group in zip(known_groups, param_groups):
            if known is not group:
                known.clear()
                known.update(group)
        known_groups[len(param_groups) :] = param_groups[len(known_groups) :]
    if known_state is not state:
        known_state.clear()
        known_state.update(state)
    optimizer.state, optimizer.param_groups = known_state, known_groups


class _Distributed:
    """What DistributedOptimizer adds to the class of an optimizer."""

    # None: of an instance that was made by the class itself, and is like one of the optimizer's
    _hvd: Any = None
    _given: Any = None  # the optimizer that was wrapped; it has the same state and groups
    _synchronized = False
    _should_synchronize = True

    def _hvd_begin(self, given: torch.optim.Optimizer, reducer: Reducer) -> None:
        # the wrapped one shares state and groups with the given one, to which a scheduler may hold
        # on
        self.__dict__.update((key, each) for key, each in given.__dict__.items() if key != "step")
        self._given, self._hvd = given, reducer
        self._synchronized, self._should_synchronize = False, True

    @property
    def _reducer(self) -> Optional[Reducer]:
        """What reduces the gradients; None without a job."""
        if type(self._hvd) is Unbound and is_initialized():
            self._hvd = self._hvd.bind(self.param_groups)
        if type(self._hvd) is Reducer and self._hvd.has_ended and is_initialized():
            self._hvd.begin_anew(self.param_groups)
        return self._hvd if type(self._hvd) is Reducer else None

    @property
    def _is_distributed(self) -> bool:
        reducer = self._reducer
        return reducer is not None and reducer.is_distributed

    # ---- What Horovod's has ----

    @property
    def op(self) -> ReduceOp:
        return self._hvd.settings.op

    @property
    def process_set(self) -> ProcessSet:
        return self._hvd.settings.process_set

    @property
    def backward_passes_per_step(self) -> int:
        return self._hvd.settings.backward_passes_per_step

    @property
    def gradient_predivide_factor(self) -> float:
        return self._hvd.settings.gradient_predivide_factor

    @property
    def sparse_as_dense(self) -> bool:
        return self._hvd.settings.sparse_as_dense

    @property
    def _compression(self) -> Any:
        return self._hvd.settings.compression

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        reducer = self._reducer
        return {} if reducer is None else reducer.names

    @property
    def _gradients(self) -> Dict[torch.Tensor, Gradient]:
        reducer = self._reducer
        return {} if reducer is None else reducer.gradients

    # ---- What users call ----

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From now on wait for this many backward passes before gradients are reduced."""
        if self._reducer is None:
            settings = self._hvd.settings._replace(backward_passes_per_step=passes)
            self._hvd = self._hvd._replace(settings=settings)
        else:
            self._hvd.set_passes(passes)

    def synchronize(self) -> None:
        """Wait until all gradients are reduced. step() does that itself, unless skip_synchronize
        says not to."""
        reducer = self._reducer
        if reducer is not None:
            self._follow_given()
            reducer.synchronize(self.param_groups)
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it step() does not call synchronize(), because the program has done so."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Any = None, *args: Any, **kwargs: Any) -> Any:
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
            return self._step_alone(closure, *args, **kwargs)
        finally:
            self._synchronized = False

    # torch profiles steps and calls hooks of users around the step of the optimizer's own class
    step.hooked = True  # type: ignore[attr-defined]

    def _step_alone(self, closure: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The step of the optimizer's own class."""
        self._follow_given()
        self._count_step()
        own_step = super().step
        if closure is None and not args:  # some classes have no closure
            return own_step(**kwargs)
        return own_step(closure, *args, **kwargs)

    def _count_step(self) -> None:
        """Schedulers that were made of the given optimizer ask it whether there was a step."""
        given = self._given
        while given is not None:
            given._opt_called = True
            if hasattr(given, "_step_count"):
                given._step_count += 1
            given = getattr(given, "_given", None)

    def _follow_given(self) -> None:
        """Take over what the given optimizer has loaded, which made dicts of its own."""
        given = self._given
        if given is None:
            return
        if isinstance(given, _Distributed):
            given._follow_given()
        if given.state is not self.state or given.param_groups is not self.param_groups:
            _replace(self, given.state, given.param_groups)
            given.state, given.param_groups = self.state, self.param_groups

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
        reducer = self._reducer
        if reducer is not None:
            reducer.update(self.param_groups)

    def _make_zeros(self, parameter: torch.Tensor) -> bool:
        """Make the gradient of this parameter zero. False: it is none of those that are reduced."""
        reducer = self._reducer
        return reducer is not None and reducer.make_zeros(parameter)

    def _is_pending(self) -> bool:
        """Is a gradient being reduced?"""
        reducer = self._reducer
        return reducer is not None and reducer.is_pending()

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._is_pending():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause "
                "a race condition."
            )
        if self._reducer is not None:
            self._reducer.leave_rooms()
        super().zero_grad(*args, **kwargs)

    # ---- State, copies and pickles ----

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._follow_given()
        return super().state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        reducer = self._reducer
        if reducer is not None:
            reducer.wait()
        self._synchronized, self._should_synchronize = False, True
        self._follow_given()
        state, param_groups = self.state, self.param_groups
        try:
            return super().load_state_dict(*args, **kwargs)
        finally:
            loaded = self.state, self.param_groups
            self.state, self.param_groups = state, param_groups
            _replace(self, *loaded)

    def __getstate__(self) -> Dict[str, Any]:
        self._follow_given()
        return dict(super().__getstate__(), _hvd=self._hvd)

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_hvd" in state:
            self._reducer

    def __reduce_ex__(self, protocol: Any) -> Tuple[Any, ...]:
        is_adasum = isinstance(self, _DistributedAdasum)
        return _bare, (own_class(self), is_adasum), self.__getstate__()


class _DistributedAdasum(_Distributed):
    """With Adasum each rank takes its own step, and the ranks combine the changes that these
    made."""

    def synchronize(self) -> None:
        """Nothing waits between backward and step."""

    def step(self, closure: Any = None, *args: Any, **kwargs: Any) -> Any:
        reducer = self._reducer
        if reducer is None or not reducer.is_distributed:
            return self._step_alone(closure, *args, **kwargs)
        self._follow_given()
        reducer.update(self.param_groups)
        reduced = list(reducer.gradients)
        starts = [each.detach().clone() for each in reduced]
        loss = self._step_alone(closure, *args, **kwargs)
        handles = []
        with torch.no_grad():
            for each, start in zip(reduced, starts):
                packed, ctx = pack(self._compression, each.detach() - start)
                name = "adasum." + reducer.names[each]
                handle = allreduce_async_(
                    packed, name=name, op=Adasum, process_set=self.process_set
                )
                handles.append((handle, ctx))
            for each, start, (handle, ctx) in zip(reduced, starts, handles):
                each.copy_(start + unpack(self._compression, handle.wait(), ctx))
        return loss

    step.hooked = True  # type: ignore[attr-defined]


def is_wrapped(optimizer: torch.optim.Optimizer) -> bool:
    """Was it made by DistributedOptimizer?"""
    return isinstance(optimizer, _Distributed)


def own_class(optimizer: torch.optim.Optimizer) -> type:
    """The class of an optimizer, or of the one that was wrapped."""
    return type(optimizer).__bases__[1] if is_wrapped(optimizer) else type(optimizer)


@functools.lru_cache(maxsize=None)
def _class_of(base: type, is_adasum: bool) -> type:
    """The class of a wrapped optimizer, which is also one of the class that was wrapped."""
    mixin = _DistributedAdasum if is_adasum else _Distributed
    return type(base.__name__, (mixin, base), {"__module__": __name__})


def _bare(base: type, is_adasum: bool) -> Any:
    """A wrapped optimizer without its state."""
    made = _class_of(base, is_adasum)
    return made.__new__(made)


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
    - sparse_as_dense: make sparse gradients dense before they are reduced; those of SparseAdam,
      which takes no others, stay sparse. Without it a parameter with sparse gradients needs one on
      every rank in the first step; in later ones a rank whose backward does not reach it adds
      nothing.
    - process_set: the ranks that share the model.
    - gradients_in_window: put gradients into memory that all ranks of the node reach (hvd_alloc),
      where they are reduced without copies; False leaves them where backward puts them. Only
      gradients that backward makes go there; one that the program has put in place stays in its
      memory, and the result is copied to it. A forked child shares this memory with its parent
      until its own backward or this optimizer's zero_grad() makes copies: a child that changes
      gradients by itself takes p.grad = p.grad.clone() first.

    Only parameters of the optimizer are reduced, whatever else named_parameters has. Several
    optimizers may own a parameter if they have the same settings, and no groups: its gradient is
    reduced once for all of them. Copies and unpickled optimizers are distributed, too. After
    shutdown and init, as between two epochs of an elastic job, it begins afresh: gradients that
    backward had computed are forgotten."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step < 1:
        raise ValueError("backward_passes_per_step must be > 0")
    if op == Adasum and process_set is not global_process_set:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    names = {each: name for name, each in _named(optimizer, named_parameters)}
    trained = [each for each in parameters_of(optimizer.param_groups) if each.requires_grad]
    settings = Settings(
        op,
        compression,
        backward_passes_per_step,
        gradient_predivide_factor,
        sparse_as_dense,
        isinstance(optimizer, torch.optim.SparseAdam),
        process_set,
        gradients_in_window,
    )
    together = _groups_of(groups, num_groups, trained)
    wrapped = _bare(own_class(optimizer), op == Adasum)
    wrapped._hvd_begin(optimizer, Reducer(settings, names, together, optimizer.param_groups))
    return wrapped
