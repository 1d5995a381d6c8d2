"""Arrays and tensors in many layouts, which notice when elements around them are written."""
import numpy as np

import hvd
from random_programs.elements import held_as

_AROUND = 77  # what is in the memory around a tensor


class Laid:
    """A tensor with given elements, as a view of [base]."""

    def __init__(self, base, view, elements):
        self.base, self.view = base, view
        self.tensor = view(base)
        self.tensor[...] = elements
        self.before = self._copy(base)

    @staticmethod
    def _copy(base):
        return base.copy() if isinstance(base, np.ndarray) else base.detach().clone()

    def check_around(self):
        """Nothing but the tensor itself has changed."""
        probe = self._copy(self.base)
        self.view(probe)[...] = self.view(self.before)
        assert same_bytes(probe, self.before), "elements around the tensor were written"

    def check_unchanged(self):
        assert same_bytes(self.base, self.before), "the input was written"


def same_bytes(one, other):
    if not isinstance(one, np.ndarray):
        one, other = to_numpy(one), to_numpy(other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def to_numpy(tensor):
    """The elements as values."""
    if isinstance(tensor, np.ndarray):
        return tensor
    import torch

    tensor = tensor.detach().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.cpu().numpy()


def _filled(shape, dtype):
    return np.full(shape, _AROUND, dtype)


# Of each layout: the shape of the memory around the tensor, and which part of it the tensor is.
_VIEWS = {
    "contiguous": (lambda shape: shape, lambda base: base),
    "turned": (lambda shape: shape[::-1], lambda base: base.T),
    "rows": (lambda shape: (shape[0] + 2,) + shape[1:], lambda base: base[1:-1]),
    "every second": (lambda shape: shape[:-1] + (2 * shape[-1],), lambda base: base[..., ::2]),
    "columns": (lambda shape: shape[:-1] + (shape[-1] + 3,), lambda base: base[..., 2:-1]),
    "backwards": (lambda shape: shape, lambda base: base[::-1]),
    "one of many": (lambda shape: (3,) + shape, lambda base: base[1]),
}
_OF_NUMPY = tuple(_VIEWS)
_OF_TORCH = tuple(each for each in _VIEWS if each != "backwards")
_NEED_A_DIMENSION = ("rows", "every second", "columns", "backwards")


def _draw(rng, shape, names):
    name = rng.choice(("contiguous",) * 4 + names)
    return "contiguous" if name in _NEED_A_DIMENSION and not shape else name


def numpy_array(rng, elements, dtype, writable):
    """A Laid numpy array, or another object with these elements, in a layout that is drawn."""
    odd = rng.random()
    if not writable and odd < 0.1:
        return _fixed(elements)
    if odd < 0.2 and elements.size:
        return Laid(hvd.alloc(elements.shape, dtype), lambda base: base, elements)
    if odd < 0.25 and elements.size:
        return _unaligned(elements)
    name = _draw(rng, elements.shape, _OF_NUMPY)
    shape, view = _VIEWS[name]
    base = np.asarray(_filled(shape(elements.shape), dtype))
    if name == "one of many" and elements.shape == ():
        view = _scalar_view
    return Laid(base, view, elements)


def _scalar_view(base):
    return base[1:2].reshape(())


def _fixed(elements):
    laid = Laid(elements.copy(), lambda base: base, elements)
    laid.tensor.flags.writeable = False
    return laid


def _unaligned(elements):
    memory = bytearray(elements.nbytes + 1)
    base = np.frombuffer(memory, elements.dtype, elements.size, 1).reshape(elements.shape)
    return Laid(base, lambda base: base, elements)


# ---- torch --------------------------------------------------------------------------------------


def torch_dtype(dtype):
    import torch

    return getattr(torch, dtype)


def torch_tensor(rng, elements, dtype, writable):
    """A Laid torch tensor in a layout that is drawn."""
    import torch

    as_torch = torch.from_numpy(np.ascontiguousarray(elements).reshape(elements.shape))
    as_torch = as_torch.to(torch_dtype(dtype))
    odd = rng.random()
    if not writable and odd < 0.05 and dtype in ("float32", "float64"):
        return _negated(torch, as_torch)
    if odd < 0.12 and elements.size:
        return Laid(_shared(as_torch), lambda base: base, as_torch)
    if odd < 0.2 and elements.size:
        return Laid(hvd.alloc_tensor(elements.shape, as_torch.dtype), lambda base: base, as_torch)
    if odd < 0.3 and elements.ndim == 4:
        base = torch.empty_like(as_torch, memory_format=torch.channels_last)
        return Laid(base, lambda base: base, as_torch)
    name = _draw(rng, elements.shape, _OF_TORCH)
    shape, view = _VIEWS[name]
    if name == "turned":
        view = _turned
    base = torch.from_numpy(np.asarray(_filled(shape(elements.shape), held_as(dtype))))
    return Laid(base.to(as_torch.dtype), view, as_torch)


def _turned(tensor):
    return tensor.permute(tuple(range(tensor.dim()))[::-1])


def _shared(tensor):
    return tensor.clone().share_memory_()


def _negated(torch, elements):
    """A tensor whose memory has the negative of its elements."""
    base = torch.zeros_like(elements)
    negative = torch.complex(torch.zeros_like(elements), -elements).conj().imag
    laid = Laid(base, lambda base: base, elements)
    laid.tensor = negative
    return laid
