"""What a caller of torch.distributed states of an operation, held against what is true: before it
is submitted as far as this rank knows, the rest when the other members' parts have arrived and
nothing has been written yet."""
from typing import Any, Callable, List, Sequence, Tuple, Union

import torch
import torch.distributed as dist

import hvd
from hvd.errors import InvalidError, UnsupportedError

Tensors = Union[torch.Tensor, Sequence[torch.Tensor]]

# ---- Arguments ----------------------------------------------------------------------------------


def listed(tensors: Tensors) -> List[torch.Tensor]:
    """The tensors, of which the short forms give one without a list."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def one(kind: str, tensors: Tensors) -> torch.Tensor:
    """The only tensor."""
    found = listed(tensors)
    if len(found) != 1 or not isinstance(found[0], torch.Tensor):
        raise InvalidError(
            "%s: the list has %d tensors; expected one, as hvd has one for each rank"
            % (kind, len(found))
        )
    return found[0]


def one_list(kind: str, lists: Any) -> List[torch.Tensor]:
    """The only list of tensors, which the short forms give without a list around it."""
    found = list(lists)
    if not found or isinstance(found[0], torch.Tensor):
        return found
    if len(found) != 1:
        raise InvalidError(
            "%s: there are %d lists of tensors; expected one, as hvd has one for each rank"
            % (kind, len(found))
        )
    return list(found[0])


_OPS = [
    (dist.ReduceOp.SUM, hvd.Sum),
    (dist.ReduceOp.PRODUCT, hvd.Product),
    (dist.ReduceOp.MIN, hvd.Min),
    (dist.ReduceOp.MAX, hvd.Max),
    (dist.ReduceOp.BAND, hvd.Band),
    (dist.ReduceOp.BOR, hvd.Bor),
    (dist.ReduceOp.BXOR, hvd.Bxor),
    (getattr(dist.ReduceOp, "AVG", None), hvd.Average),
]


def op_of(opts: Any) -> hvd.ReduceOp:
    """The reduction that options name, or that is given in their place; None: SUM."""
    given = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
    for theirs, ours in _OPS:
        if theirs is not None and given == theirs:
            return ours
    premultiplied = getattr(dist.ReduceOp, "PREMUL_SUM", None)
    raise UnsupportedError(
        "the backend hvd has no reduction %s; expected SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or "
        "BXOR" % ("PREMUL_SUM" if given == premultiplied else given)
    )


def root_of(kind: str, opts: Any, size: int) -> int:
    """The member that is the root by the options, or that is given in their place; None: 0."""
    root = 0 if opts is None else getattr(opts, "rootRank", opts)
    if not 0 <= root < size:
        raise InvalidError(
            "%s: the root is %d; expected a member from 0 to %d" % (kind, root, size - 1)
        )
    return root


# ---- What this rank knows -----------------------------------------------------------------------


def check_parts(kind: str, parts: Sequence[torch.Tensor], size: int) -> None:
    """Is there one for each member?"""
    if len(parts) != size:
        raise InvalidError(
            "%s: the list has %d tensors; expected one for each of the %d members"
            % (kind, len(parts), size)
        )


def _looks(tensor: torch.Tensor) -> str:
    text = "%s on %s" % (str(tensor.dtype).replace("torch.", ""), tensor.device)
    return text if tensor.layout is torch.strided else "%s, %s" % (text, tensor.layout)


def check_alike(kind: str, tensors: Sequence[torch.Tensor], like: torch.Tensor) -> None:
    """Have all the type, device and layout of [like]? hvd converts nothing."""
    for i, each in enumerate(tensors):
        if (each.dtype, each.device, each.layout) != (like.dtype, like.device, like.layout):
            raise InvalidError(
                "%s: tensor %d is %s, another one %s; give inputs and outputs the same type and "
                "device" % (kind, i, _looks(each), _looks(like))
            )


def check_pairs(kind: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Is there an output for each input?"""
    if len(outputs) != len(inputs):
        raise InvalidError(
            "%s: there are %d outputs for %d inputs; give one for each"
            % (kind, len(outputs), len(inputs))
        )


def check_same_shape(kind: str, output: torch.Tensor, input: torch.Tensor) -> None:
    """Does this rank's own part fit its place?"""
    if output.shape != input.shape:
        raise InvalidError(
            "%s: this rank's part has the shape %s, the tensor for it %s; they must be equal"
            % (kind, tuple(input.shape), tuple(output.shape))
        )


def check_count(kind: str, what: str, tensor: torch.Tensor, expected: int) -> None:
    """Has the tensor that many elements?"""
    if tensor.numel() != expected:
        raise InvalidError(
            "%s: the %s has %d elements; expected %d" % (kind, what, tensor.numel(), expected)
        )


def counts_of_splits(
    kind: str, what: str, splits: Sequence[int], tensor: torch.Tensor, size: int
) -> List[int]:
    """The elements for each member, of a tensor whose rows are split so; without splits, evenly."""
    rows = tensor.size(0) if tensor.dim() else 0
    if not splits:
        if not tensor.dim() or rows % size:
            raise InvalidError(
                "%s: the %s has %d rows, which %d members cannot share evenly; give splits"
                % (kind, what, rows, size)
            )
        splits = [rows // size] * size
    if len(splits) != size or min(splits) < 0 or sum(splits) != rows:
        raise InvalidError(
            "%s: the splits of the %s are %s; expected %d of them, whose sum is its %d rows"
            % (kind, what, list(splits), size, rows)
        )
    width = tensor.numel() // rows if rows else 0
    return [each * width for each in splits]


# ---- What has arrived ---------------------------------------------------------------------------


def check_arrived(kind: str, sent: Sequence[int], expected: Sequence[int]) -> None:
    """Has each member sent as many elements as this rank has room for?"""
    for member, (found, room) in enumerate(zip(sent, expected)):
        if found != room:
            raise InvalidError(
                "%s: member %d sent %d elements to this rank, whose tensor for them holds %d; they "
                "must be equal, and nothing was written" % (kind, member, found, room)
            )


def arrival(
    kind: str, expected: Sequence[int], outputs: Sequence[torch.Tensor]
) -> Callable[[Tuple[torch.Tensor, List[int]]], None]:
    """Stores the result of an alltoall, gather or scatter in the outputs, one after another, if so
    many elements came from each member."""

    def store(result: Tuple[torch.Tensor, List[int]]) -> None:
        received, sent = result
        check_arrived(kind, sent, expected)
        spread(received, outputs)

    return store


# ---- Elements of several tensors, one after another ---------------------------------------------


def counts(tensors: Sequence[torch.Tensor]) -> List[int]:
    return [each.numel() for each in tensors]


def are_even(tensors: Sequence[torch.Tensor]) -> bool:
    """Have all equally many elements?"""
    return len(set(counts(tensors))) == 1


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([each.reshape(-1) for each in tensors])


def spread(elements: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy elements into tensors, which have room for just these."""
    for part, each in zip(elements.reshape(-1).split(counts(tensors)), tensors):
        each.copy_(part.view(each.shape))
