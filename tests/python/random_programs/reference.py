"""What each collective must give, computed by one process from the inputs of all members."""
import functools

import numpy as np

from random_programs.elements import INTEGERS, NARROW, rounded


def _scaled(array, dtype, factor):
    """Integers are truncated towards zero and limited to their type's range."""
    if factor == 1 or dtype == "bool":
        return array
    if dtype not in INTEGERS:
        return array * array.dtype.type(factor)
    limits = np.iinfo(dtype)
    return np.clip(np.trunc(array * float(factor)), limits.min, limits.max).astype(dtype)


def _fold(op, one, other):
    if one.dtype == bool:
        return one | other if op in ("sum", "max") else one & other
    if op == "product":
        return one * other
    if op in ("sum", "average"):
        return one + other
    return np.maximum(one, other) if op == "max" else np.minimum(one, other)


def _divided(array, dtype, count):
    if dtype not in INTEGERS:
        return array / array.dtype.type(count)
    floor = array // array.dtype.type(count)
    return floor + ((array < 0) & (array % array.dtype.type(count) != 0)).astype(dtype)


def _adasum(vectors):
    """Pairs of neighbours, then pairs of pairs."""
    while len(vectors) > 1:
        vectors = [_blend(a, b) for a, b in zip(vectors[::2], vectors[1::2])]
    return vectors[0]


def _blend(a, b):
    dot, aa, bb = float((a * b).sum()), float((a * a).sum()), float((b * b).sum())
    return a * (1 - dot / (2 * aa) if aa else 1) + b * (1 - dot / (2 * bb) if bb else 1)


def reduced(op, dtype, inputs, factors=(1, 1), members=None):
    """The reduction of all members' arrays, in their order. [members]: how many an average counts,
    where some have no array because they have joined."""
    with np.errstate(all="ignore"):
        if dtype in NARROW:
            inputs = [each.astype("float32") for each in inputs]
        inputs = [_scaled(each, dtype, factors[0]) for each in inputs]
        if op == "adasum":
            result = _adasum([each.astype("float64") for each in inputs])
        else:
            result = functools.reduce(functools.partial(_fold, op), inputs)
        if op == "average":
            result = _divided(result, dtype, members or len(inputs))
        return rounded(np.asarray(_scaled(result, dtype, factors[1])), dtype)


def share(array, member, members):
    """The rows of a member: the first ones have one more where they do not divide."""
    least, more = divmod(len(array), members)
    begin = member * least + min(member, more)
    return array[begin : begin + least + (member < more)]


def received(inputs, splits, member):
    """What a member receives, and how many rows from each. [splits]: for each member, how many
    rows go to each."""
    parts = []
    for array, counts in zip(inputs, splits):
        begin = sum(counts[:member])
        parts.append(array[begin : begin + counts[member]])
    return np.concatenate(parts), [counts[member] for counts in splits]


def even_splits(rows, members):
    return [[rows // members] * members] * members


def expected(case, member):
    """The results of a member: a list of arrays."""
    inputs = [case.inputs(each) for each in range(len(case.members))]
    return [
        _one(case, member, dtype, [of_member[i] for of_member in inputs])
        for i, dtype in enumerate(case.dtypes)
    ]


def _one(case, member, dtype, inputs):
    if case.kind == "allreduce":
        return reduced(case.op, dtype, inputs, case.factors)
    if case.kind == "reducescatter":
        whole = reduced(case.op, dtype, inputs, case.factors)
        return share(whole, member, len(inputs))
    if case.kind == "allgather":
        return np.concatenate(inputs)
    if case.kind == "alltoall":
        return received(inputs, case.splits, member)[0]
    return inputs[case.root]  # broadcast
