"""Tensors on GPUs, as far as a machine without one can tell: what libhvd is told of them, and which
stream waits."""
import contextlib
import os

import numpy as np
import pytest

import hvd
from hvd import _abi, _arrays, _calls, _device, _operations

DEVICE = _abi.ENUMS["hvd_memory"]["HVD_MEMORY_DEVICE"]
ANY = _abi.ENUMS["hvd_memory"]["HVD_MEMORY_ANY"]


class Gpu:
    id = 3


class OnGpu:
    """What looks like an array of cupy."""

    def __init__(self, shape=(2, 3), typestr="<f4", strides=None, read_only=False, device=Gpu):
        self.device = device
        self.shape = shape
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "strides": strides, "version": 3,
            "data": (0x700000, read_only), "stream": 7,
        }  # fmt: skip


def test_where_it_is():
    thing, adapter = _arrays.adapt(OnGpu())
    place = adapter.place(thing)
    code = _abi.ENUMS["hvd_dtype"]["HVD_FLOAT32"]
    assert place == (0x700000, code, (2, 3), DEVICE, 3)
    assert adapter.place(OnGpu(device=None))[3:] == (ANY, 0)
    types = {"|b1": "BOOL", "|u1": "UINT8", "<i8": "INT64", "<f2": "FLOAT16", "<u2": "UINT16"}
    for typestr, name in types.items():
        found = adapter.place(OnGpu(typestr=typestr)).dtype
        assert found == _abi.ENUMS["hvd_dtype"]["HVD_" + name]
    assert adapter.is_contiguous(OnGpu(strides=(12, 4)))
    assert not adapter.is_contiguous(OnGpu(strides=(4, 8)))


def test_what_libhvd_is_told():
    thing = OnGpu()
    call, _, _ = _operations.allreduce.prepare(thing, hvd.Sum, "gpu", 1.0, 1.0, None, None, thing)
    array, options = call.arguments[0]._obj, call.arguments[2]._obj
    told = _abi.Tensor.from_buffer(array)
    assert (told.input, told.output, told.memory, told.device) == (0x700000, 0x700000, DEVICE, 3)
    assert options.stream == 7 and call.stream() == 7


@pytest.mark.parametrize(
    "thing, sentence",
    [
        (OnGpu(typestr="<c8"), "array of type <c8"),
        (OnGpu(strides=(4, 8)), "not contiguous"),
        (OnGpu(read_only=True), "read-only"),
    ],
)
def test_refused(thing, sentence):
    with pytest.raises(ValueError, match=sentence):
        hvd.allreduce(thing, out=thing)


def test_torch_allocates_in_an_idle_stream(monkeypatch):
    """What torch's allocator hands out in the program's stream may still be in use there."""
    torch = pytest.importorskip("torch")
    made, entered = [], []

    @contextlib.contextmanager
    def enter(stream):
        entered.append(stream)
        yield

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: made.append(device) or "idle")
    monkeypatch.setattr(torch.cuda, "stream", enter)
    adapter, like = _arrays.TorchAdapter(), torch.ones(2, dtype=torch.float64)
    for _ in range(2):
        address, room = adapter.allocate(like, 48)
        made_of_it = adapter.from_allocated(like, room, (2, 3))
        assert made_of_it.data_ptr() == address
        assert made_of_it.shape == (2, 3) and made_of_it.dtype == like.dtype
    assert made == [like.device] and entered == ["idle", "idle"]


def test_optimizer_state_arrives_where_parameters_are():
    """The root's state on a GPU needs room on this rank's GPU. Here "meta" is that GPU."""
    torch = pytest.importorskip("torch")
    from hvd.torch import functions

    hole = functions._Hole(0, torch.empty(2, 3, device="meta"))
    parameters = [torch.ones(1), torch.empty(1, device="meta")]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    assert functions._Filler(optimizer)._room_for(hole).device.type == "meta"
    hole.memory = "cpu"
    assert functions._Filler(optimizer)._room_for(hole).device.type == "cpu"


def test_the_stream_waits(rank, size):
    """Of host memory libhvd waits as ever, and does not look at the stream."""
    mine, asked = np.ones(4), []
    call, value, finish = _operations.allreduce.prepare(
        mine, hvd.Sum, "by stream", 1.0, 1.0, None, None, None
    )
    call.stream = lambda: asked.append(1)
    assert (_calls.run(call, value, finish) == size).all() and asked == [1]


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a GPU")
def test_no_backend_carries_it():
    thing = OnGpu()
    with pytest.raises(hvd.UnsupportedError, match="CUDA"):
        hvd.allreduce(thing, out=thing)


@pytest.mark.parametrize(
    "named, there, taken",
    [
        ("/named", ["loaded", "/named", "libnccl.so.2", "torch"], "loaded"),
        ("/named", ["/named", "libnccl.so.2", "torch"], "/named"),
        ("/named", ["libnccl.so.2", "torch"], None),
        ("", ["libnccl.so.2", "torch"], "libnccl.so.2"),
        ("", ["torch"], "torch"),
        ("", [], None),
    ],
)
def test_which_nccl(monkeypatch, named, there, taken):
    """The same one as libhvd takes."""

    def load(file, mode=0):
        found = "loaded" if mode == os.RTLD_NOLOAD else file
        found = "torch" if found == "/site/torch/../nvidia/nccl/lib/libnccl.so.2" else found
        if found not in there:
            raise OSError(found)
        return found

    class Package:
        submodule_search_locations = ["/site/torch"]

    monkeypatch.setenv("HVD_NCCL_LIBRARY", named)
    monkeypatch.setattr(_device.importlib.util, "find_spec", lambda name: Package)
    monkeypatch.setattr(_device.ctypes, "CDLL", load)
    if taken is not None:
        assert _device._nccl_library() == taken
        return
    with pytest.raises(OSError):
        _device._nccl_library()
