"""Keeps torch.compile out of hvd's functions. A compiled model calls a process group from C++, and
torch then traces the Python of that group like the model's own, which it cannot."""
import functools
import gc
import os
import sys
import types
from typing import Any, Callable, Iterable, Iterator, List, Optional

import torch


def _skip() -> Optional[Callable[[types.CodeType], Any]]:
    """Tells torch not to trace a code, without the second that importing torch._dynamo takes.
    None: this torch does not compile."""
    eval_frame = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(eval_frame, "skip_code"):
        return eval_frame.skip_code
    if not hasattr(eval_frame, "set_code_exec_strategy"):  # that of torch 2.7 and later
        return None
    action = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(action, action)
    return lambda code: eval_frame.set_code_exec_strategy(code, strategy)


_HOLDERS = (
    dict, list, tuple, staticmethod, classmethod, property, functools.partial,
    type(functools.lru_cache(lambda: None)),
)  # fmt: skip


def _parts(thing: Any, package: str) -> Iterable[Any]:
    """What a thing holds, as far as functions of the package may be in there."""
    if isinstance(thing, types.FunctionType):
        inside = gc.get_referents(*thing.__closure__ or ())
        return [thing.__code__, *vars(thing).values(), *inside]
    if isinstance(thing, types.CodeType):
        return thing.co_consts  # the functions that it makes
    if isinstance(thing, type):
        return vars(thing).values() if thing.__module__.split(".")[0] == package else ()
    return gc.get_referents(thing) if isinstance(thing, _HOLDERS) else ()


def _codes_of(package: str) -> Iterator[types.CodeType]:
    """The code of all functions in the modules of a package, also of those that decorators have
    wrapped. To look through all objects of Python takes several times as long."""
    folder = os.path.join(os.path.dirname(sys.modules[package].__file__ or ""), "")
    names = [name for name in sys.modules if name.split(".")[0] == package]
    waiting: List[Any] = [vars(sys.modules[name]) for name in names]
    seen = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, types.CodeType) and thing.co_filename.startswith(folder):
            yield thing
        waiting.extend(_parts(thing, package))


@functools.lru_cache(maxsize=None)
def leave_untraced(package: str) -> None:
    """All functions that the modules of [package] have now."""
    skip = _skip()
    for code in _codes_of(package) if skip is not None else ():
        skip(code)
