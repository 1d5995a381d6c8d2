"""Horovod's exceptions."""
from hvd.elastic import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
