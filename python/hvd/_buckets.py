"""DistributedDataParallel's buckets in memory of hvd_alloc, where ranks of a node reduce them
without copies.

torch's Reducer allocates its buckets when it is made, and once more after the first backward. What
it allocates meanwhile comes from here: it has no other place to ask for them."""
import functools
from typing import Any, Callable

import torch
import torch.distributed as dist

import hvd
from hvd._memory import alloc_tensor
from hvd.errors import HvdError

try:
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:  # buckets stay where torch puts them
    TorchDispatchMode = None

_LEAST_BYTES = 1 << 12  # less is no bucket
wanted = True  # hvd.distributed.buckets_in_window changes it


def _is_bucket(shape: Any, options: Any) -> bool:
    dtype = options.get("dtype") or torch.float32
    on_host = str(options.get("device") or "cpu") == "cpu"
    if len(shape) != 1 or not on_host or not dtype.is_floating_point:
        return False
    return shape[0] * torch.finfo(dtype).bits // 8 >= _LEAST_BYTES


def _make_mode() -> Any:
    class Buckets(TorchDispatchMode):
        """Within it empty tensors that can be buckets are in memory of hvd_alloc."""

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            options = options or {}
            if function is torch.ops.aten.empty.memory_format:
                if _is_bucket(arguments[0], options):
                    try:
                        return alloc_tensor(arguments[0][0], options.get("dtype"))
                    except HvdError:  # then in other memory, which is slower
                        pass
            return function(*arguments, **options)

    return Buckets()


def _within(original: Callable) -> Callable:
    """A method of Reducer that allocates buckets."""
    mode = _make_mode()

    @functools.wraps(original)
    def method(*arguments: Any, **settings: Any) -> Any:
        if not wanted or not hvd.is_initialized() or hvd.size() == 1:
            return original(*arguments, **settings)
        with mode:
            return original(*arguments, **settings)

    return method


def install() -> None:
    """From now on buckets of new models are in such memory."""
    reducer = getattr(dist, "Reducer", None)
    if TorchDispatchMode is None or not hasattr(reducer, "_rebuild_buckets"):
        return
    reducer.__init__ = _within(reducer.__init__)
    reducer._rebuild_buckets = _within(reducer._rebuild_buckets)
