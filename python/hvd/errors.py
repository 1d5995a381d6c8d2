"""Exceptions: one for each status of hvd.h, which carry libhvd's sentence."""
import operator
import re
from typing import Any

from hvd import _abi
from hvd._library import lib


class HvdError(RuntimeError):
    """An error of hvd. str() is the sentence that explains it, [status] its name in hvd.h."""

    status = "HVD_ERR_SYSTEM"


class InvalidError(HvdError, ValueError):
    """An argument, an option or the environment is wrong: correct it."""

    status = "HVD_ERR_INVALID"


class StateError(HvdError, ValueError):
    """Not allowed now: before init, after shutdown, or in a forked child."""

    status = "HVD_ERR_STATE"


class DuplicateError(HvdError, ValueError):
    """An operation of that name is still in flight on this rank."""

    status = "HVD_ERR_DUPLICATE"


class MismatchError(HvdError):
    """The ranks disagree on this operation or on the job."""

    status = "HVD_ERR_MISMATCH"


class UnsupportedError(HvdError):
    """No backend that all ranks have can carry this."""

    status = "HVD_ERR_UNSUPPORTED"


class NoMemoryError(HvdError, MemoryError):
    """Memory or descriptors ran out."""

    status = "HVD_ERR_NO_MEMORY"


class TimedOutError(HvdError, TimeoutError):
    """A rank did not arrive in time."""

    status = "HVD_ERR_TIMEOUT"


class RankLostError(HvdError):
    """A rank died or cannot be reached: save your work and exit."""

    status = "HVD_ERR_RANK_LOST"


class ShutdownError(HvdError):
    """A rank called shutdown while this was pending."""

    status = "HVD_ERR_SHUTDOWN"


class SystemFailure(HvdError):
    """A system call or a library failed."""

    status = "HVD_ERR_SYSTEM"


class SetError(HvdError, ValueError):
    """No such process set, this rank is no member, or it was removed."""

    status = "HVD_ERR_SET"


_CLASSES = {
    _abi.ENUMS["hvd_status"][each.status]: each
    for each in (
        InvalidError,
        StateError,
        DuplicateError,
        MismatchError,
        UnsupportedError,
        NoMemoryError,
        TimedOutError,
        RankLostError,
        ShutdownError,
        SystemFailure,
        SetError,
    )
}


# WaitTimedOut is hvd.distributed's TimedOutError, which is one of torch's errors too
_IN_TEXT = re.compile(
    r"\b(%s|WaitTimedOut): (.*)" % "|".join(each.__name__ for each in _CLASSES.values())
)


def behind(error: BaseException) -> BaseException:
    """The error of hvd of which torch's C++ has made a RuntimeError with its name and sentence, as
    in backward of DistributedDataParallel; any other error is returned as it is."""
    found = _IN_TEXT.search(str(error)) if type(error) is RuntimeError else None
    return error if found is None else globals().get(found[1], TimedOutError)(found[2])


# What the sentences of libhvd name, and what that is called in Python.
_PYTHON_NAMES = {
    "hvd_init_with": "hvd.init",
    "hvd_set_add": "hvd.add_process_set",
    "hvd_set_add_by_members": "hvd.add_process_set(by_members=True)",
    "hvd_set_remove": "hvd.remove_process_set",
    "hvd_alloc_on": "hvd.alloc",
    "hvd_timeline_start": "hvd.start_timeline",
    "HVD_SUM": "hvd.Sum",
    "HVD_AVERAGE": "hvd.Average",
    "HVD_MIN": "hvd.Min",
    "HVD_PRODUCT": "hvd.Product",
    "HVD_ADASUM": "hvd.Adasum",
    "HVD_ANY_SOURCE": "hvd.ANY_SOURCE",
}
_SAME_NAMES = ("init", "shutdown", "alloc", "join", "should_stop", "allreduce", "allreduce_init")
_PYTHON_NAMES.update({"hvd_" + name: "hvd." + name for name in _SAME_NAMES})
_C_NAME = re.compile(r"\b(hvd|HVD)_\w+")


def last_sentence() -> str:
    """The sentence about the last error of a call of libhvd on this thread."""
    return lib.hvd_error_text().decode("utf-8", "replace")


def error_of(status: int, sentence: str) -> HvdError:
    """The exception for a status and the sentence that belongs to it, with the names of Python."""
    sentence = sentence or lib.hvd_status_text(status).decode()
    sentence = _C_NAME.sub(lambda name: _PYTHON_NAMES.get(name[0], name[0]), sentence)
    return _CLASSES.get(status, HvdError)(sentence)


def check(status: int) -> None:
    """Raise the exception of a status that is not success."""
    if status != 0:
        raise error_of(status, last_sentence())


_INT_LIMIT = 1 << 31


def as_int(what: str, number: Any) -> int:
    """A number that libhvd gets as an int; [what] is the argument's name."""
    try:
        found = operator.index(number)
    except TypeError:
        found = _INT_LIMIT
    if not -_INT_LIMIT <= found < _INT_LIMIT:
        raise InvalidError("%s=%r: expected a whole number below 2**31" % (what, number))
    return int(found)
