"""Names of operations: those that hvd makes up, and names as C strings."""
import ctypes
import threading
from typing import Any, Dict, Tuple

# Names that hvd makes up are counted for each kind and set, so that ranks that submit in the same
# order use the same names. They are used again, because libhvd negotiates known names faster.
MADE_UP_NAMES = 256
_STRING_LIMIT = 16384

handles_of_names: Dict[
    str, int
] = {}  # libhvd's handle of the last operation under each made-up name

_counts: Dict[Tuple[str, int], int] = {}
_count_lock = threading.Lock()
_strings: Dict[str, Tuple[Any, int]] = {}


class MadeUpName(str):
    """A name that hvd made up, and that an operation in flight may still have."""


def made_up_name(kind: str, number: int) -> MadeUpName:
    """The next name for an operation of this kind in process set [number]."""
    with _count_lock:
        count = _counts.get((kind, number), 0)
        _counts[(kind, number)] = count + 1
    place = "%s.noname" % kind if number == 0 else "%s.set%d.noname" % (kind, number)
    return MadeUpName("%s.%d" % (place, count % MADE_UP_NAMES))


def forget() -> None:
    """A new job has begun: count from 0 again."""
    _counts.clear()
    handles_of_names.clear()


def c_string(name: str) -> Tuple[Any, int]:
    """A name as a C string, and its address, valid as long as the string is alive."""
    known = _strings.get(name)
    if known is None:
        if len(_strings) >= _STRING_LIMIT:
            _strings.clear()
        text = ctypes.create_string_buffer(name.encode("utf-8", "surrogateescape"))
        known = _strings[name] = (text, ctypes.addressof(text))
    return known
