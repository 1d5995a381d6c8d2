"""Horovod's elastic states."""
from hvd.elastic import ObjectState, State  # noqa: F401
