"""Names of operations: those that hvd makes up, and names as C strings."""
import ctypes
import hashlib
import itertools
from typing import Any, Dict, List, Tuple

from hvd import _abi
from hvd.errors import InvalidError

# Names that hvd makes up are used again, because libhvd negotiates known names faster.
MADE_UP_NAMES = 256
_STRING_LIMIT = 16384
_NAME_LIMIT = _abi.CONSTANTS["HVD_MAX_NAME"]  # bytes
_DIGEST_BYTES = 16

_unnamed: Dict[Tuple[str, int], "Unnamed"] = {}
_groups_of_set: Dict[int, int] = {}
_strings: Dict[str, Tuple[Any, int]] = {}


class MadeUpName(str):
    """A name that hvd made up, and that an operation in flight may still have."""


class Unnamed:
    """Stands for the name of an operation that has none. Ranks agree on made-up names because they
    count them, so a name counts only when libhvd accepted an operation under it."""

    def __init__(self, place: str):
        self._place = place
        texts = map((place.replace("%", "%%") + ".noname.%d").__mod__, range(MADE_UP_NAMES))
        self._next = itertools.cycle(map(MadeUpName, texts))
        self._given_back: List[MadeUpName] = []

    def take(self, taken: List[MadeUpName]) -> None:
        """Append the next name to a list, in one step: an exception of a signal handler comes
        before or after it, and does not lose the name."""
        if self._given_back:
            try:
                return taken.extend(map(self._given_back.pop, (0,)))
            except IndexError:  # another thread was faster
                pass
        taken.extend(itertools.islice(self._next, 1))

    def give_back(self, name: MadeUpName) -> None:
        """No operation was accepted under it: it is the next one again."""
        self._given_back.append(name)

    def __str__(self) -> str:
        return self._place + ".noname"


def _in_set(kind: str, number: int) -> str:
    return kind if number == 0 else "%s.set%d" % (kind, number)


def unnamed(kind: str, number: int) -> Unnamed:
    """The name of an operation of this kind without a name, in process set [number]."""
    found = _unnamed.get((kind, number))
    if found is None:
        found = _unnamed.setdefault((kind, number), Unnamed(_in_set(kind, number)))
    return found


def fixed_name(kind: str, number: int) -> MadeUpName:
    """The one name of all operations of this kind in a set, which a program waits for: nothing is
    counted, so nothing can differ between ranks."""
    return MadeUpName(_in_set(kind, number))


def gradient_name(name: str, what: str = "gradient") -> MadeUpName:
    """The name of an operation that the gradient of [name] needs."""
    return MadeUpName("%s.%s" % (name, what))


def begin_anew(number: int) -> None:
    """All members of the set have counted until here, perhaps not equally far: begin with the first
    names again."""
    for key in list(_unnamed):
        if key[1] == number:
            _unnamed.pop(key, None)


def next_of_set(number: int) -> int:
    """The place of a new group of torch.distributed among those with the process set [number]. Its
    members count alike, as they create their groups in the same order."""
    place = _groups_of_set.get(number, 0)
    _groups_of_set[number] = place + 1
    return place


def forget() -> None:
    """A new job has begun."""
    _unnamed.clear()
    _groups_of_set.clear()


def _shortened(name: bytes) -> bytes:
    """A name of at most 255 bytes for a longer one: its beginning, and a digest of it all, by which
    it differs from others on all ranks alike."""
    digest = hashlib.blake2b(name, digest_size=_DIGEST_BYTES).hexdigest().encode()
    whole = name[: _NAME_LIMIT - len(digest) - 1].decode("utf-8", "ignore")
    return whole.encode() + b"~" + digest


def c_string(name: str) -> Tuple[Any, int]:
    """A name as a C string, and its address, valid as long as the string is alive."""
    known = _strings.get(name)
    if known is None:
        if not isinstance(name, str) or "\0" in name:
            raise InvalidError("the name %r: expected a string without \\0" % (name,))
        if len(_strings) >= _STRING_LIMIT:
            _strings.clear()
        encoded = name.encode("utf-8", "surrogateescape")
        if len(encoded) > _NAME_LIMIT:
            encoded = _shortened(encoded)
        text = ctypes.create_string_buffer(encoded)
        known = _strings[name] = (text, ctypes.addressof(text))
    return known
