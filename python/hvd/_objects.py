"""Python objects between ranks: pickled, and only between ranks of the job, which trust each other
anyway."""
import pickle
from typing import Any, List, Optional

from hvd import _operations
from hvd._arrays import numpy_adapter
from hvd._calls import run
from hvd._job import rank as job_rank
from hvd._job import set_id
from hvd._names import fixed_name
from hvd.errors import InvalidError


def _pickled(thing: Any, limit: Optional[int]) -> Any:
    data = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    if limit is not None and len(data) > limit:
        raise InvalidError(
            "the object has %d bytes when pickled, more than max_bytes=%d; raise the limit, "
            "or send tensors as tensors" % (len(data), limit)
        )
    return numpy_adapter().numpy.frombuffer(data, dtype="uint8")


def broadcast_object(
    thing: Any = None,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: Any = None,
    max_bytes: Optional[int] = None,
) -> Any:
    """Every member gets a copy of the object of rank [root_rank]. It travels as a pickle, which
    runs code of the sender: ranks of a job trust each other. With [max_bytes], more than that is an
    error on all members."""
    numpy = numpy_adapter().numpy
    is_root = job_rank() == root_rank
    data, error = numpy.empty(0, "uint8"), None
    if is_root:
        try:
            data = _pickled(thing, max_bytes)
        except Exception as caught:  # the others must not wait for it
            error = caught
    count = numpy.array([-1 if error is not None else data.size], "int64")
    name = fixed_name("broadcast_object", set_id(process_set)) if name is None else name
    size_name = type(name)(name + ".size")
    count = int(_operations.broadcast(count, root_rank, size_name, process_set)[0])
    if error is not None:
        raise error
    if count < 0:
        raise InvalidError("rank %d cannot broadcast its object; it says why" % root_rank)
    if not is_root:
        data = numpy.empty(count, "uint8")
    data = _operations.broadcast(data, root_rank, name, process_set)
    return thing if is_root else pickle.loads(data.data)


def allgather_object(
    thing: Any,
    name: Optional[str] = None,
    process_set: Any = None,
    max_bytes: Optional[int] = None,
) -> List[Any]:
    """The objects of all members, in their order, as pickles. With [max_bytes], an object of more
    than that is an error on all members."""
    numpy = numpy_adapter().numpy
    error = None
    try:
        data = _pickled(thing, max_bytes)
    except Exception as caught:
        error, data = caught, numpy.empty(0, "uint8")
    name = fixed_name("allgather_object", set_id(process_set)) if name is None else name
    call, gathered, take = _operations.allgather.prepare(data, name, process_set)
    everything = run(call, gathered, take)
    if error is not None:
        raise error
    found, begin = [], 0
    for count in gathered.rows[0]:
        if count == 0:
            raise InvalidError("a member cannot send its object; it says why")
        found.append(pickle.loads(everything[begin : begin + count].data))
        begin += count
    return found


def all_equal(number: int) -> bool:
    """Do all ranks pass the same number? Collective."""
    numpy = numpy_adapter().numpy
    pair = _operations.allreduce(
        numpy.array([number, -number], "int64"), _operations.Max, "hvd.all_equal"
    )
    return int(pair[0]) == -int(pair[1])
