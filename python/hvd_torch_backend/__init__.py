"""The backend "hvd" of torch.distributed without import hvd.distributed: torch 2.5 and later call
register() when they are imported, as the entry point of an installed package says. This is no part
of the package hvd, which loads libhvd: import torch works where that cannot be loaded."""
import functools
import importlib
from typing import Any


def register() -> None:
    """Let init_process_group("hvd") import hvd.distributed."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    original = c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        if str(backend).lower() != "hvd":
            return original(backend, *args, **kwargs)
        importlib.import_module("hvd.distributed")  # which puts its own function in place of this
        return dist.init_process_group(backend, *args, **kwargs)

    init_process_group.without_hvd = original  # type: ignore[attr-defined]
    dist.init_process_group = c10d.init_process_group = init_process_group
