"""What a notice of changed hosts says."""
from hvd.elastic import HostUpdateResult  # noqa: F401
