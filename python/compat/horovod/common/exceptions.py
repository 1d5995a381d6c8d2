"""Horovod's exceptions."""
from hvd.errors import HvdError as HorovodInternalError  # noqa: F401


class HostsUpdatedInterrupt(RuntimeError):
    """Never raised: hvd does not change the ranks while a job runs."""

    def __init__(self, skip_sync: bool = False):
        super().__init__()
        self.skip_sync = skip_sync
