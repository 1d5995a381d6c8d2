"""Says which names and addresses stand for this machine."""
import socket
from typing import Any


def is_this_machine(host: str) -> bool:
    """Does a name or address stand for this machine? "" does."""
    own = socket.gethostname()
    if host in ("", "localhost", own, own.split(".")[0]):
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def _can_bind(family: int, address: Any) -> bool:
    """A socket can be bound to addresses of this machine alone."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind(address)
            return True
    except OSError:
        return False
