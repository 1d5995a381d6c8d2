"""hvd.h as a table: enumerations, structs and prototypes. A test has the C compiler compare it with
hvd.h."""
import ctypes
from typing import Dict, List, Tuple

ENUMS: Dict[str, Dict[str, int]] = {
    "hvd_status": {
        "HVD_OK": 0,
        "HVD_IN_PROGRESS": 1,
        "HVD_NEW_RANKS": 2,
        "HVD_ERR_INVALID": -1,
        "HVD_ERR_STATE": -2,
        "HVD_ERR_DUPLICATE": -3,
        "HVD_ERR_MISMATCH": -4,
        "HVD_ERR_UNSUPPORTED": -5,
        "HVD_ERR_NO_MEMORY": -6,
        "HVD_ERR_TIMEOUT": -7,
        "HVD_ERR_RANK_LOST": -8,
        "HVD_ERR_SHUTDOWN": -9,
        "HVD_ERR_SYSTEM": -10,
        "HVD_ERR_SET": -11,
    },
    "hvd_dtype": {
        "HVD_INT32": 0,
        "HVD_INT64": 1,
        "HVD_FLOAT32": 2,
        "HVD_FLOAT64": 3,
        "HVD_UINT8": 4,
        "HVD_INT8": 5,
        "HVD_UINT16": 6,
        "HVD_INT16": 7,
        "HVD_FLOAT16": 8,
        "HVD_BFLOAT16": 9,
        "HVD_BOOL": 10,
        "HVD_FLOAT8_E4M3": 11,
        "HVD_FLOAT8_E5M2": 12,
    },
    "hvd_op": {
        "HVD_SUM": 0,
        "HVD_AVERAGE": 1,
        "HVD_MIN": 2,
        "HVD_MAX": 3,
        "HVD_PRODUCT": 4,
        "HVD_ADASUM": 5,
        "HVD_BAND": 6,
        "HVD_BOR": 7,
        "HVD_BXOR": 8,
    },
    "hvd_wire": {"HVD_WIRE_EXACT": 0, "HVD_WIRE_FLOAT16": 1, "HVD_WIRE_BFLOAT16": 2},
    "hvd_memory": {
        "HVD_MEMORY_ANY": 0,
        "HVD_MEMORY_HOST": 1,
        "HVD_MEMORY_DEVICE": 2,
        "HVD_MEMORY_MANAGED": 3,
    },
    "hvd_direction": {"HVD_SEND": 0, "HVD_RECV": 1},
}

CONSTANTS = {
    "HVD_MAX_DIMS": 8,
    "HVD_MAX_NAME": 255,
    "HVD_MAX_GROUP": 16384,
    "HVD_ALL_RANKS": 0,
    "HVD_ANY_SOURCE": -1,
}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("input", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.c_int64 * CONSTANTS["HVD_MAX_DIMS"]),
        ("memory", ctypes.c_int),
        ("device", ctypes.c_int),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("set", ctypes.c_int),
        ("prescale", ctypes.c_double),
        ("postscale", ctypes.c_double),
        ("wire", ctypes.c_int),
        ("stream", ctypes.c_void_p),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("allocate", ctypes.c_void_p),
        ("arg", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("row_count", ctypes.c_int64),
    ]


class Ranks(ctypes.Structure):
    _fields_ = [("ranks", ctypes.c_void_p), ("count", ctypes.c_int)]


class Start(ctypes.Structure):
    _fields_ = [("job", Ranks), ("sets", ctypes.c_void_p), ("set_count", ctypes.c_int)]


class Message(ctypes.Structure):
    _fields_ = [
        ("direction", ctypes.c_int),
        ("tensor", Tensor),
        ("rank", ctypes.c_int),
        ("tag", ctypes.c_int),
        ("sourcep", ctypes.c_void_p),
    ]


STRUCTS = {
    "hvd_message": Message,
    "hvd_tensor": Tensor,
    "hvd_options": Options,
    "hvd_result": Result,
    "hvd_ranks": Ranks,
    "hvd_start": Start,
}

# struct.pack_into writes a Tensor some times faster than ctypes does
TENSOR_FORMAT = "PPPii%dqii" % CONSTANTS["HVD_MAX_DIMS"]

_T, _O, _R = "const struct hvd_tensor *", "const struct hvd_options *", "struct hvd_result *"
_ASYNC = ["hvd_done_f", "void *", "hvd_handle *"]


def _both_forms(name: str, arguments: List[str]) -> Dict[str, Tuple[str, List[str]]]:
    """The waiting and the asynchronous form of an operation."""
    return {
        name: ("enum hvd_status", arguments),
        name + "_async": ("enum hvd_status", arguments + _ASYNC),
    }


PROTOTYPES: Dict[str, Tuple[str, List[str]]] = {
    "hvd_init": ("enum hvd_status", []),
    "hvd_init_with": ("enum hvd_status", ["const struct hvd_start *"]),
    "hvd_shutdown": ("enum hvd_status", []),
    "hvd_is_initialized": ("int", []),
    "hvd_rank": ("int", []),
    "hvd_size": ("int", []),
    "hvd_local_rank": ("int", []),
    "hvd_local_size": ("int", []),
    "hvd_node_rank": ("int", []),
    "hvd_node_count": ("int", []),
    "hvd_launcher_ranks": ("int", ["int *", "int"]),
    "hvd_set_add": ("enum hvd_status", ["const int *", "int", "hvd_set *"]),
    "hvd_set_add_by_members": ("enum hvd_status", ["const int *", "int", "hvd_set *"]),
    "hvd_set_remove": ("enum hvd_status", ["hvd_set"]),
    "hvd_set_rank": ("int", ["hvd_set"]),
    "hvd_set_size": ("int", ["hvd_set"]),
    "hvd_set_ranks": ("int", ["hvd_set", "int *", "int"]),
    "hvd_set_list": ("int", ["hvd_set *", "int"]),
    **_both_forms("hvd_allreduce", [_T, "enum hvd_op", _O]),
    **_both_forms("hvd_grouped_allreduce", [_T, "int", "enum hvd_op", _O]),
    **_both_forms("hvd_broadcast", [_T, "int", _O]),
    **_both_forms("hvd_allgather", [_T, _R, _O]),
    **_both_forms("hvd_grouped_allgather", [_T, _R, "int", _O]),
    **_both_forms("hvd_alltoall", [_T, "const int64_t *", _R, _O]),
    **_both_forms("hvd_reducescatter", [_T, "enum hvd_op", _O]),
    **_both_forms("hvd_grouped_reducescatter", [_T, "int", "enum hvd_op", _O]),
    **_both_forms("hvd_reducescatterv", [_T, "const int64_t *", "enum hvd_op", _O]),
    **_both_forms("hvd_reduce", [_T, "enum hvd_op", "int", _O]),
    **_both_forms("hvd_gather", [_T, "int", _R, _O]),
    **_both_forms("hvd_scatter", [_T, "const int64_t *", "int", _R, _O]),
    **_both_forms("hvd_send", [_T, "int", "int", _O]),
    **_both_forms("hvd_recv", [_T, "int", "int", _O, "int *"]),
    **_both_forms("hvd_exchange", ["const struct hvd_message *", "int", _O]),
    **_both_forms("hvd_join", ["hvd_set", "int *"]),
    **_both_forms("hvd_barrier", ["hvd_set"]),
    "hvd_test": ("enum hvd_status", ["hvd_handle"]),
    "hvd_wait_on_stream": ("enum hvd_status", ["hvd_handle", "void *"]),
    "hvd_wait_on_stream_for": ("enum hvd_status", ["hvd_handle", "void *", "int64_t"]),
    "hvd_wait": ("enum hvd_status", ["hvd_handle"]),
    "hvd_wait_for": ("enum hvd_status", ["hvd_handle", "int64_t"]),
    "hvd_allreduce_init": ("enum hvd_status", [_T, "int", "enum hvd_op", _O, "hvd_persistent *"]),
    "hvd_broadcast_init": ("enum hvd_status", [_T, "int", _O, "hvd_persistent *"]),
    "hvd_reducescatter_init": (
        "enum hvd_status",
        [_T, "int", "enum hvd_op", _O, "hvd_persistent *"],
    ),
    "hvd_allgather_init": ("enum hvd_status", [_T, _R, "int", _O, "hvd_persistent *"]),
    "hvd_persistent_start": ("enum hvd_status", ["hvd_persistent", "void *"]),
    "hvd_persistent_free": ("enum hvd_status", ["hvd_persistent"]),
    "hvd_alloc": ("enum hvd_status", ["int64_t", "void **"]),
    "hvd_alloc_on": ("enum hvd_status", ["int", "int64_t", "void **"]),
    "hvd_free": ("enum hvd_status", ["void *"]),
    "hvd_state_create": ("enum hvd_status", ["hvd_state *"]),
    "hvd_state_add": ("enum hvd_status", ["hvd_state", "const char *", "void *", "int64_t"]),
    "hvd_state_on_reset": ("enum hvd_status", ["hvd_state", "hvd_reset_f", "void *"]),
    "hvd_state_free": ("enum hvd_status", ["hvd_state"]),
    "hvd_state_commit": ("enum hvd_status", ["hvd_state"]),
    "hvd_state_check": ("enum hvd_status", ["hvd_state"]),
    "hvd_state_sync": ("enum hvd_status", ["hvd_state"]),
    "hvd_state_dir": ("const char *", []),
    "hvd_state_read": ("enum hvd_status", ["hvd_state", "const char *", "void **", "int64_t *"]),
    "hvd_state_write": (
        "enum hvd_status",
        ["hvd_state", "const char *", "const void *", "int64_t"],
    ),
    "hvd_elastic_run": ("enum hvd_status", ["hvd_train_f", "hvd_state", "void *"]),
    "hvd_request_stop": ("void", []),
    "hvd_should_stop": ("enum hvd_status", ["int *"]),
    "hvd_timeline_start": ("enum hvd_status", ["const char *"]),
    "hvd_timeline_stop": ("enum hvd_status", []),
    "hvd_error_text": ("const char *", []),
    "hvd_error_set": ("enum hvd_status", ["enum hvd_status", "const char *"]),
    "hvd_status_text": ("const char *", ["enum hvd_status"]),
    "hvd_version": ("const char *", []),
}

# those that never wait, neither for another rank nor for the system
AT_ONCE = {name for name in PROTOTYPES if name.endswith("_async")}
AT_ONCE.update(
    ("hvd_is_initialized", "hvd_rank", "hvd_size", "hvd_local_rank", "hvd_local_size"),
    ("hvd_node_rank", "hvd_node_count", "hvd_set_rank", "hvd_set_size", "hvd_test"),
    ("hvd_error_text", "hvd_status_text", "hvd_version", "hvd_state_dir"),
)

_SCALARS = {
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "hvd_set": ctypes.c_int,
    "hvd_handle": ctypes.c_uint64,
    "hvd_persistent": ctypes.c_uint64,
    "hvd_state": ctypes.c_uint64,
    "hvd_done_f": ctypes.c_void_p,
    "hvd_reset_f": ctypes.c_void_p,
    "hvd_train_f": ctypes.c_void_p,
    "void": None,
    "const char *": ctypes.c_char_p,
}


def ctype_of(text: str):
    """The ctypes type of a C type in PROTOTYPES. Pointers are numbers, because these are cheap to
    make."""
    if text in _SCALARS:
        return _SCALARS[text]
    if text.endswith("*"):
        return ctypes.c_void_p
    if text.startswith("enum "):
        return ctypes.c_int
    raise KeyError(text)
