"""Arrays on a GPU, over the double of CUDA that python.bats puts in its place: real ranks and
libhvd, and memory of a device, which only the driver reads and writes."""
import ctypes
import gc
import os
import threading

import numpy as np
import pytest

import hvd
from hvd import _device, _memory

if "GPU_OF_EACH" not in os.environ:
    pytest.skip("needs the double of CUDA: python.bats has it", allow_module_level=True)

STREAM = 1  # CUDA's default stream, as __cuda_array_interface__ names it


def ordinal():
    return hvd.local_rank() if os.environ["GPU_OF_EACH"] == "1" else 0


def copy(to, source, count):
    """By the driver, after what is queued in the default stream; the host waits."""
    driver = _device.driver()
    context = driver.retain(ordinal())
    addresses = ctypes.c_uint64(to), ctypes.c_uint64(source)
    size = ctypes.c_size_t(count)
    driver.call_in(context, "cuMemcpyAsync", *addresses, size, ctypes.c_void_p(STREAM))
    driver.call_in(context, "cuStreamSynchronize", ctypes.c_void_p(STREAM))
    driver.release(ordinal())


def on_gpu(values, **settings):
    """An array on this rank's GPU with the values of a numpy array."""
    values = np.ascontiguousarray(values)
    memory = _device.DeviceMemory(values.nbytes, ordinal()) if values.nbytes else None
    if memory is not None:
        copy(memory.address, values.ctypes.data, values.nbytes)
    return hvd.DeviceArray(memory, values.shape, values.dtype.str, ordinal(), STREAM)


def on_host(array):
    interface = array.__cuda_array_interface__
    values = np.empty(interface["shape"], interface["typestr"])
    if values.nbytes:
        copy(values.ctypes.data, interface["data"][0], values.nbytes)
    return values


def test_nccl_is_told():
    """Of the double, or none."""
    assert (_device.nccl_version() > 20000) == (os.environ["GPU_OF_EACH"] == "1")


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "uint8"])
def test_uneven_rows(rank, size, dtype):
    mine = np.full((rank + 1, 3), rank + 1, dtype)
    expected = np.concatenate([np.full((each + 1, 3), each + 1, dtype) for each in range(size)])
    result = hvd.allgather(on_gpu(mine))
    assert isinstance(result, hvd.DeviceArray) and result.device == ordinal()
    np.testing.assert_array_equal(on_host(result), expected)
    splits = [rank + 1] + [0] * (size - 1)  # all rows to the first
    received, counts = hvd.alltoall(on_gpu(mine), splits)
    np.testing.assert_array_equal(on_host(received), expected if rank == 0 else expected[:0])
    assert counts == ([each + 1 for each in range(size)] if rank == 0 else [0] * size)


def test_bits_go_through_the_host(rank, size):
    mine = np.array([1 << rank, 6], "int32")
    found = on_host(hvd.allreduce(on_gpu(mine), hvd.Bxor))
    np.testing.assert_array_equal(found, [(1 << size) - 1, 6 * (size % 2)])


def test_without_out(rank, size):
    mine = np.arange(6, dtype="float32").reshape(2, 3) + rank
    total = sum(np.arange(6, dtype="float32").reshape(2, 3) + each for each in range(size))
    np.testing.assert_array_equal(on_host(hvd.allreduce(on_gpu(mine), hvd.Sum)), total)
    np.testing.assert_array_equal(on_host(hvd.broadcast(on_gpu(mine), size - 1))[0, 0], size - 1)
    in_place = on_gpu(mine)
    assert hvd.allreduce(in_place, hvd.Sum, out=in_place) is in_place
    np.testing.assert_array_equal(on_host(in_place), total)
    share = hvd.reducescatter(on_gpu(np.ones((size, 2), "float32")), hvd.Sum)
    np.testing.assert_array_equal(on_host(share), np.full((1, 2), size))


def test_groups_and_nothing(rank, size):
    first, second = hvd.grouped_allgather([on_gpu(np.full(2, rank)), on_gpu(np.ones((1, 2)))])
    assert on_host(first).tolist() == [each for each in range(size) for _ in range(2)]
    assert on_host(second).shape == (size, 2)
    assert on_host(hvd.allgather(on_gpu(np.zeros((0, 4), "float32")))).shape == (0, 4)


def test_messages(rank, size):
    """In a ring, from few bytes to many; one of a group is in host memory."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 1000, 100000):
        mine, theirs = on_gpu(np.full(count, rank, "int32")), on_gpu(np.full(count, -1, "int32"))
        sent = hvd.isend(mine, right, tag=count)
        assert hvd.recv(theirs, left if count % 3 else hvd.ANY_SOURCE, tag=count) == left
        sent.wait()
        np.testing.assert_array_equal(on_host(theirs), np.full(count, left))
    here, there, theirs = np.full(5, -1, "int32"), on_gpu(np.full(5, rank)), on_gpu(np.full(5, -1))
    messages = [hvd.Recv(here, left), hvd.Recv(theirs, left), hvd.Send(there, right)]
    ends = hvd.exchange([hvd.Send(np.full(5, rank, "int32"), right)] + messages)
    assert ends == [right, left, left, right]
    assert on_host(theirs).tolist() == here.tolist() == [left] * 5


def test_one_end_of_a_message_is_on_the_host(rank, size):
    here, there = np.full(20000, rank, "float32"), on_gpu(np.full(20000, rank, "float32"))
    if rank == 0:
        hvd.send(there, 1)
        hvd.send(here, 1)
    elif rank == 1:
        hvd.recv(here, 0)
        hvd.recv(there, 0)
        assert (here == 0).all() and (on_host(there) == 0).all()


def test_while_the_program_computes(rank, size):
    """libhvd's thread asks for room while this one has the interpreter's lock and submits more."""
    handles = []
    for i in range(200):
        handles.append(hvd.allgather_async(on_gpu(np.full(i % 5 + 1, rank, "float32"))))
        handles[-1].done()
        sum(range(500))
    for i, handle in enumerate(handles):
        found = on_host(handle.wait())
        assert found.tolist() == [each for each in range(size) for _ in range(i % 5 + 1)]


def test_threads(rank, size):
    failures = []

    def work(number):
        try:
            for _ in range(20):
                result = hvd.allgather(on_gpu(np.full(3, rank)), "of thread %d" % number)
                assert on_host(result).tolist() == [each for each in range(size) for _ in range(3)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures


def test_alloc(rank, size):
    """In memory that NCCL registers, where there is NCCL."""
    mine = hvd.alloc((2, 3), "float32", device=ordinal())
    assert isinstance(mine, hvd.DeviceArray) and mine.shape == (2, 3)
    for step in range(3):
        values = np.full((2, 3), rank + step, "float32")
        copy(mine.__cuda_array_interface__["data"][0], values.ctypes.data, values.nbytes)
        assert hvd.allreduce(mine, hvd.Sum, "in place", out=mine) is mine
        np.testing.assert_array_equal(on_host(mine), size * (size - 1) // 2 + size * step)
    assert hvd.alloc((0, 3), device=ordinal()).shape == (0, 3)
    assert hvd.alloc(4, device=ordinal()).shape == (4,)
    with pytest.raises(hvd.InvalidError, match="earlier tensors of this rank are on GPU"):
        hvd.alloc(4, device=ordinal() + 1)


class FakeTensor:
    """What torch.as_tensor would make of bytes on a GPU, in a torch that knows no CUDA."""

    def __init__(self, source):
        self.source, self.calls = source, []

    def view(self, dtype):
        self.calls.append(dtype)
        return self

    def reshape(self, shape):
        self.calls.append(shape)
        return self


def test_alloc_tensor(rank, size, monkeypatch):
    """torch's tensor is over bytes of that memory, and keeps it."""
    torch = pytest.importorskip("torch")
    frees = []
    free = _memory.lib.hvd_free
    monkeypatch.setattr(_memory.lib, "hvd_free", lambda address: frees.append(free(address)))
    monkeypatch.setattr(torch, "as_tensor", FakeTensor)
    tensor = hvd.alloc_tensor((2, 3), torch.bfloat16, "cuda:%d" % ordinal())
    assert tensor.calls == [torch.bfloat16, (2, 3)]
    interface = tensor.source.__cuda_array_interface__
    assert interface["typestr"] == "|u1" and interface["shape"] == (12,)
    assert _device.driver().device_of(interface["data"][0]) == ordinal()
    total = hvd.allreduce(tensor.source, hvd.Max, out=tensor.source)
    assert total is tensor.source and not frees
    del tensor, total
    gc.collect()
    assert frees == [0]
    monkeypatch.setattr(torch.cuda, "current_device", ordinal)
    tensor = hvd.alloc_tensor(3, device="cuda")
    assert tensor.source.device == ordinal() and tensor.calls == [torch.float32, 3]


def test_dropped(rank, size):
    for i in range(20):
        hvd.allgather_async(on_gpu(np.full(4, rank)), "dropped%d" % i)
    gc.collect()
    hvd.barrier()
    assert on_host(hvd.allreduce(on_gpu(np.ones(2, "float32")), hvd.Sum))[1] == size


def test_no_room(rank, size, monkeypatch, capfd):
    """Where a rank cannot allocate its result, each gets the error."""

    def refuse(count, device):
        raise hvd.NoMemoryError("the GPU is full")

    mine = on_gpu(np.ones(4))
    if rank == size - 1:
        monkeypatch.setattr(_device, "DeviceMemory", refuse)
        with pytest.raises(hvd.NoMemoryError, match="no memory for the"):
            hvd.allgather(mine, "no room")
        assert "no room for a result on the GPU: the GPU is full" in capfd.readouterr().err
    else:
        try:
            hvd.allgather(mine, "no room")
        except hvd.HvdError:
            pass


class Graph:
    """What the driver captures of a stream, as torch.cuda.graph does."""

    def __init__(self):
        self.driver, self.context = _device.driver(), _device.driver().retain(ordinal())
        self.stream, self.launched = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(self.stream), 1, 0)

    def call(self, name, *arguments):
        self.driver.call_in(self.context, name, *arguments)

    def __enter__(self):
        self.call("cuStreamBeginCapture_v2", self.stream, 0)
        return self.stream.value

    def __exit__(self, *_):
        captured = ctypes.c_void_p()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(captured))
        flags = ctypes.c_ulonglong(0)
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(self.launched), captured, flags)
        self.call("cuGraphDestroy", captured)

    def launch(self):
        self.call("cuGraphLaunch", self.launched, self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def free(self):
        self.call("cuGraphExecDestroy", self.launched)
        self.call("cuStreamDestroy_v2", self.stream)
        self.driver.release(ordinal())


by_nccl = pytest.mark.skipif(os.environ["GPU_OF_EACH"] != "1", reason="only NCCL carries them")


@by_nccl
def test_persistent(rank, size):
    tensors = [on_gpu(np.full(5, rank + 1, "float32")), on_gpu(np.full((2, 3), rank, "float32"))]
    with hvd.allreduce_init(tensors, hvd.Sum) as total:
        assert [on_host(each).shape for each in total.result] == [(5,), (2, 3)]
        for _ in range(3):
            total.start()
        assert on_host(total.result[0]).tolist() == [size * (size + 1) / 2] * 5
        assert (on_host(total.result[1]) == size * (size - 1) / 2).all()
    with pytest.raises(hvd.InvalidError, match="was freed"):
        total.start()
    total.free()
    with pytest.raises(hvd.InvalidError, match="expected a stream"):
        hvd.broadcast_init(tensors[0], 0).start("mine")
    with pytest.raises(hvd.InvalidError, match="takes a list"):
        hvd.allreduce_init(tensors[0])
    with pytest.raises(hvd.InvalidError, match="one or more"):
        hvd.allreduce_init([])
    with pytest.raises(hvd.UnsupportedError, match="in host memory"):
        hvd.allreduce_init([np.ones(3, "float32")])
    hvd.barrier()


@by_nccl
def test_graph(rank, size):
    tensor = on_gpu(np.zeros(4, "float32"))
    mine = on_gpu(np.full((rank + 1, 2), rank, "float32"))
    rows = on_gpu(np.ones((size + 1, 2), "float32"))
    made = [
        hvd.allreduce_init([tensor], name="in a graph", outs=[tensor]),
        hvd.broadcast_init(tensor, size - 1, out=tensor),
        hvd.allgather_init([mine]),
        hvd.reducescatter_init([rows], hvd.Sum),
    ]
    graph = Graph()
    with graph as stream:
        for each in made:
            each.start(stream)
    for step in range(3):
        values = np.full(4, rank + step, "float32")
        copy(tensor.__cuda_array_interface__["data"][0], values.ctypes.data, values.nbytes)
        graph.launch()
        assert (on_host(tensor) == (size - 1) / 2 + step).all()
        (gathered,) = made[2].result
        expected = [each for each in range(size) for _ in range(each + 1)]
        assert on_host(gathered)[:, 0].tolist() == expected
        (share,) = made[3].result
        assert on_host(share).tolist() == [[size, size]] * (2 if rank == 0 else 1)
    with pytest.raises(hvd.StateError, match="is in a CUDA graph"):
        hvd.allreduce(tensor, name="beside")
    assert hvd.allreduce(np.ones(2), hvd.Sum)[0] == size  # of the host
    graph.free()
    for each in made:
        each.free()
    assert hvd.allreduce(tensor, name="after") is not None
    hvd.barrier()
