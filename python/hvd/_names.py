"""Names of operations: those that hvd makes up, and names as C strings."""
import ctypes
import itertools
from typing import Any, Dict, Iterator, Tuple

from hvd.errors import InvalidError

# Names that hvd makes up are counted for each kind and set, so that ranks that submit in the same
# order use the same names. They are used again, because libhvd negotiates known names faster.
MADE_UP_NAMES = 256
_STRING_LIMIT = 16384

_cycles: Dict[Tuple[str, int], Iterator["MadeUpName"]] = {}
_strings: Dict[str, Tuple[Any, int]] = {}


class MadeUpName(str):
    """A name that hvd made up, and that an operation in flight may still have."""


def made_up_name(kind: str, number: int) -> MadeUpName:
    """The next name for an operation of this kind in process set [number]."""
    names = _cycles.get((kind, number))
    if names is None:
        place = kind if number == 0 else "%s.set%d" % (kind, number)
        texts = map((place.replace("%", "%%") + ".noname.%d").__mod__, range(MADE_UP_NAMES))
        names = _cycles.setdefault((kind, number), itertools.cycle(map(MadeUpName, texts)))
    return next(names)


def forget() -> None:
    """A new job has begun: begin with the first name again."""
    _cycles.clear()


def c_string(name: str) -> Tuple[Any, int]:
    """A name as a C string, and its address, valid as long as the string is alive."""
    known = _strings.get(name)
    if known is None:
        if not isinstance(name, str) or "\0" in name:
            raise InvalidError("the name %r: expected a string without \\0" % (name,))
        if len(_strings) >= _STRING_LIMIT:
            _strings.clear()
        text = ctypes.create_string_buffer(name.encode("utf-8", "surrogateescape"))
        known = _strings[name] = (text, ctypes.addressof(text))
    return known
