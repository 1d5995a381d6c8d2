"""Keeps torch.compile out of hvd's functions. A compiled model calls a process group from C++, and
torch then traces the Python of that group like the model's own, which it cannot."""
import functools
import gc
import types
from typing import Any, Callable, Optional

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


@functools.lru_cache(maxsize=None)
def leave_untraced(package: str) -> None:
    """All functions that [package] has now, also those that decorators have wrapped."""
    skip = _skip()
    for each in gc.get_objects() if skip is not None else ():
        if type(each) is types.FunctionType and (each.__module__ or "").split(".")[0] == package:
            skip(each.__code__)
