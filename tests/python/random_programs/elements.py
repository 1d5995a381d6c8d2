"""Element types, shapes and values. Values are numpy arrays that differ between ranks and that
every rank can compute; bfloat16, which numpy does not have, is held in float32."""
import random
import zlib

import numpy as np

INTEGERS = ("uint8", "uint16", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NARROW = ("float16", "bfloat16")
TYPES = INTEGERS + FLOATS + ("bool",)

_LENGTHS = (0, 1, 1, 2, 3, 5, 7, 8, 16, 63, 64, 65)
_LARGE = (1000, 4097, 20000, 65537)


def stream(*parts):
    """A random stream of its own for these numbers and words."""
    return random.Random("/".join(map(str, parts)))


def held_as(dtype):
    """The numpy type that holds the values."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def rounded(values, dtype):
    """Values as the type can hold them."""
    if dtype != "bfloat16":
        return values.astype(held_as(dtype))
    import torch

    return torch.tensor(values.astype("float32")).bfloat16().float().numpy()


def draw_shape(rng, least_dimensions=0):
    """A shape of few elements, or now and then of many in one dimension."""
    if rng.random() < 0.08:
        return (rng.choice(_LARGE),)
    shape = [rng.choice(_LENGTHS) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4)))]
    while len(shape) < least_dimensions:
        shape.append(rng.choice(_LENGTHS))
    while np.prod(shape, dtype=int) > 5000:
        shape[shape.index(max(shape))] = 2
    return tuple(shape)


def draw_values_kind(rng, dtype, op):
    """Which values: small whole numbers, whose sums all types hold exactly; all equal; of integers
    the whole range; of floats also what is no number."""
    kinds = ["small"] * 6 + ["equal"]
    if dtype in INTEGERS:
        kinds += ["whole"] * 2
    if dtype in FLOATS and op != "adasum":
        kinds += ["special"]
    return rng.choice(kinds)


def values(kind, dtype, shape, factors, *seed):
    """The elements for a seed. [factors]: they are multiplied with each other."""
    made = np.random.RandomState(zlib.crc32(repr(seed).encode()))
    if dtype == "bool":
        return np.asarray(made.randint(0, 2, shape), bool).reshape(shape)
    if kind == "whole":
        limits = np.iinfo(dtype)
        numbers = made.randint(limits.min, limits.max, shape, dtype)
        return np.asarray(numbers, dtype).reshape(shape)
    least = 0 if dtype.startswith("u") else -2 if factors else -5
    found = made.randint(least, 3 if factors else 6, shape)
    if kind == "equal":
        found = np.full(shape, made.randint(least, 3))
    found = np.asarray(found).astype(held_as(dtype)).reshape(shape)
    if kind == "special" and found.size:
        odd = made.randint(0, found.size, 1 + found.size // 7)
        found.reshape(-1)[odd] = made.choice([np.nan, np.inf, -np.inf, -0.0], odd.size)
    return found
