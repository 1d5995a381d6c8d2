"""Messages between two ranks: waiting, asynchronous, and several that begin at once."""
import ctypes
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from hvd import _abi
from hvd._arrays import HOST, adapt, refuse
from hvd._calls import Call, Description, options_of
from hvd._job import set_id
from hvd._operations import submitting, waiting
from hvd.errors import InvalidError, as_int

ANY_SOURCE = _abi.CONSTANTS["HVD_ANY_SOURCE"]
_DIRECTIONS = _abi.ENUMS["hvd_direction"]
_TENSOR_BYTES = ctypes.sizeof(_abi.Tensor)

# ---- Tensors ------------------------------------------------------------------------------------


class _Sent:
    """A tensor that is sent; a copy of one that is not contiguous."""

    __slots__ = ("tensor", "adapter", "memory", "place")
    direction = _DIRECTIONS["HVD_SEND"]

    def __init__(self, tensor: Any):
        self.tensor, self.adapter = adapt(tensor)
        self.memory = self.adapter.contiguous(self.tensor)
        self.place = self.adapter.place(self.memory)

    def add_to(self, description: Description) -> None:
        description.add(None, self.place, self.place.address, 0)

    def stream(self) -> Optional[int]:
        """Of a tensor on a GPU: the stream in which the program uses it."""
        return None if self.place.memory == HOST else self.adapter.stream(self.memory)

    def finish(self) -> None:
        if self.place.memory != HOST:
            self.adapter.use_in_stream(self.memory)


class _Received(_Sent):
    """A tensor that is received into; by way of a copy if it is not contiguous."""

    __slots__ = ("source",)
    direction = _DIRECTIONS["HVD_RECV"]

    def __init__(self, tensor: Any):
        super().__init__(tensor)
        if isinstance(tensor, getattr(self.adapter, "copied", ())):
            why = "nothing can be received into it; pass an array"
            raise refuse("an object of type", type(tensor).__name__, why)
        if not self.adapter.is_writable(self.tensor):
            raise refuse("an array to receive into,", "it is read-only", "pass a copy")
        self.source = ctypes.c_int(ANY_SOURCE)

    def add_to(self, description: Description) -> None:
        description.add(None, self.place, 0, self.place.address)

    def finish(self) -> int:
        """Put what has arrived where the program wants it; returns the rank that sent it."""
        super().finish()
        if not self.adapter.is_contiguous(self.tensor):
            self.adapter.copy(self.tensor, self.memory)
        return self.source.value


def _set_stream(call: Call, tensor: _Sent) -> Call:
    """Tell the call of tensors on a GPU which stream waits."""
    if tensor.place.memory != HOST:
        call.stream = tensor.stream
    return call


# ---- One message --------------------------------------------------------------------------------


def _call_of(
    kind: str, tensor: _Sent, way: str, rank: Any, tag: Any, process_set: Any, *more: Any
) -> Call:
    """The call of libhvd for a message. [way]: how its name puts the other end."""
    description = Description(1)
    tensor.add_to(description)
    rank, tag = as_int("rank", rank), as_int("tag", tag)
    options = options_of(set_id(process_set), stream=tensor.stream())
    name = "%s %s %s with tag %d" % (kind, way, _rank_text(rank), tag)
    call = Call(kind, (description.array, rank, tag, options, *more), name)
    return _set_stream(call, tensor)


def _rank_text(rank: int) -> str:
    return "any rank" if rank == ANY_SOURCE else "rank %d" % rank


@waiting
def send(tensor: Any, rank: int, tag: int = 0, process_set: Any = None):
    """Send a tensor to [rank], a rank of the job also inside a set, whose recv has the same set and
    [tag], 0 or more. Messages of one rank with one set and tag arrive in their order. A small one
    is done when it is on its way; others wait for their recv. So ranks that send to each other use
    exchange, or send_async."""
    sent = _Sent(tensor)
    return _call_of("send", sent, "to", rank, tag, process_set), sent, _Sent.finish


send_async = submitting(send)


@waiting
def recv(tensor: Any, rank: int = ANY_SOURCE, tag: int = 0, process_set: Any = None):
    """Receive into a tensor, of the type and number of elements that [rank] sends, or whichever
    rank sends first. Returns the rank that sent it."""
    received = _Received(tensor)
    call = _call_of("recv", received, "from", rank, tag, process_set, received.source)
    return call, received, _Received.finish


recv_async = submitting(recv)

isend, irecv = send_async, recv_async  # as MPI and torch name them

# ---- Several that begin at once -----------------------------------------------------------------


class Send(NamedTuple):
    """A message that exchange sends: hvd.send with these arguments."""

    tensor: Any
    rank: int
    tag: int = 0


class Recv(NamedTuple):
    """A message that exchange receives: hvd.recv with these arguments."""

    tensor: Any
    rank: int = ANY_SOURCE
    tag: int = 0


def _tensor_of(place: int, message: Union[Send, Recv]) -> _Sent:
    if not isinstance(message, (Send, Recv)):
        raise InvalidError(
            "exchange: message %d is of type %s; expected hvd.Send or hvd.Recv"
            % (place, type(message).__name__)
        )
    return (_Sent if isinstance(message, Send) else _Received)(message.tensor)


def _describe(messages: Sequence[Union[Send, Recv]], tensors: Sequence[_Sent]) -> Any:
    """What libhvd is told of them."""
    description = Description(len(messages))
    array = (_abi.Message * max(len(messages), 1))()
    for i, (message, tensor) in enumerate(zip(messages, tensors)):
        tensor.add_to(description)
        source = ctypes.addressof(tensor.source) if isinstance(tensor, _Received) else None
        array[i] = _abi.Message(
            tensor.direction,
            _abi.Tensor.from_buffer(description.array, i * _TENSOR_BYTES),
            as_int("rank", message.rank),
            as_int("tag", message.tag),
            source,
        )
    return array


def _ends(value: Tuple[Sequence[Union[Send, Recv]], List[_Sent]]) -> List[int]:
    """Finish all; returns for each message the rank at its other end."""
    messages, tensors = value
    found = [each.finish() for each in tensors]
    return [int(m.rank) if end is None else end for m, end in zip(messages, found)]


@waiting
def exchange(messages: Sequence[Union[Send, Recv]], process_set: Any = None):
    """Begin sends and receives at once, so that none waits for another, and wait until all are
    done. [messages] are hvd.Send(tensor, rank, tag) and hvd.Recv(tensor, rank, tag). Returns for
    each the rank at its other end. An error of one is that of all, once all are over."""
    messages = list(messages)
    tensors = [_tensor_of(i, each) for i, each in enumerate(messages)]
    array = _describe(messages, tensors)
    there = next((each for each in tensors if each.place.memory != HOST), None)
    options = options_of(set_id(process_set), stream=there.stream() if there else None)
    call = Call("exchange", (array, len(messages), options), "exchange")
    if there:
        _set_stream(call, there)
    return call, (messages, tensors), _ends


exchange_async = submitting(exchange)
