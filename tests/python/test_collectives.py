"""Every collective on numpy arrays, against what numpy computes of all ranks' inputs."""
import array
import gc

import numpy as np
import pytest

import hvd

TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "float16", "float32", "float64"]
SHAPES = [(), (0,), (1,), (5,), (3, 4), (2, 0, 3), (2, 1, 3, 1, 2), (1,) * 9 + (3,)]


def of_rank(rank, shape, dtype):
    """The input of a rank: small numbers that differ between ranks."""
    count = int(np.prod(shape))
    return ((np.arange(count) + 2 * rank) % 5 + 1).astype(dtype).reshape(shape)


def all_inputs(size, shape, dtype):
    return [of_rank(rank, shape, dtype) for rank in range(size)]


@pytest.mark.parametrize("dtype", TYPES)
def test_allreduce_types_and_shapes(rank, size, dtype):
    for shape in SHAPES:
        inputs = all_inputs(size, shape, dtype)
        mine = inputs[rank]
        before = mine.copy()
        result = hvd.allreduce(mine, hvd.Sum)
        assert result.dtype == mine.dtype and result.shape == mine.shape
        np.testing.assert_array_equal(result, sum(inputs).astype(dtype))
        np.testing.assert_array_equal(mine, before)


@pytest.mark.parametrize(
    "op, reference",
    [
        (hvd.Sum, lambda inputs: sum(inputs)),
        (hvd.Min, np.minimum.reduce),
        (hvd.Max, np.maximum.reduce),
        (hvd.Product, np.multiply.reduce),
        (hvd.Average, lambda inputs: sum(inputs) / len(inputs)),
    ],
)
def test_allreduce_ops(rank, size, op, reference):
    inputs = all_inputs(size, (7, 3), "float64")
    np.testing.assert_allclose(hvd.allreduce(inputs[rank], op), reference(inputs))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize(
    "op, reference",
    [
        (hvd.Band, np.bitwise_and.reduce),
        (hvd.Bor, np.bitwise_or.reduce),
        (hvd.Bxor, np.bitwise_xor.reduce),
    ],
)
def test_bitwise(rank, size, op, reference, dtype):
    bits = np.random.default_rng(3).integers(0, 2**63, (size, 5, 7))
    inputs = (bits & 1 if dtype == "bool" else bits).astype(dtype)
    total = reference(inputs)
    np.testing.assert_array_equal(hvd.allreduce(inputs[rank], op), total)
    share = hvd.reducescatter(inputs[rank], op)
    np.testing.assert_array_equal(np.concatenate(hvd.allgather_object(share)), total)
    with pytest.raises(hvd.InvalidError, match="needs integers or bools; this tensor is float32"):
        hvd.allreduce(np.ones(3, "float32"), op)
    with pytest.raises(hvd.InvalidError, match="does not scale; leave it 1"):
        hvd.allreduce(inputs[rank].astype("int32"), op, prescale=2)


def test_allreduce_bool(rank, size):
    mine = np.array([rank == 0, False, True])
    np.testing.assert_array_equal(hvd.allreduce(mine, hvd.Sum), [True, False, True])


def test_factors_and_wire(rank, size):
    mine = np.full(9, rank + 1, "float32")
    result = hvd.allreduce(mine, hvd.Sum, prescale=2, postscale=0.5, wire="bfloat16")
    np.testing.assert_allclose(result, size * (size + 1) / 2)
    with pytest.raises(ValueError, match="wire='half'"):
        hvd.allreduce(mine, wire="half")


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_ml_dtypes(rank, size, name):
    dtype = getattr(pytest.importorskip("ml_dtypes"), name)
    mine = np.full((2, 3), rank + 1, dtype)
    total = hvd.allreduce(mine, hvd.Sum)
    assert total.dtype == dtype
    np.testing.assert_array_equal(total.astype("float32"), size * (size + 1) // 2)
    assert hvd.allgather(mine).astype("float32").sum() == 6 * (size * (size + 1) // 2)


def test_adasum(rank, size):
    if size & (size - 1):
        with pytest.raises(hvd.HvdError, match="power-of-two"):
            hvd.allreduce(np.ones(4), hvd.Adasum)
    else:
        np.testing.assert_allclose(hvd.allreduce(np.ones(4), hvd.Adasum), np.ones(4))


def test_out_and_in_place(rank, size):
    mine, out = np.full((2, 2), rank, "int32"), np.zeros((2, 2), "int32")
    assert hvd.allreduce(mine, hvd.Sum, out=out) is out
    assert hvd.allreduce(mine, hvd.Sum, out=mine) is mine
    np.testing.assert_array_equal(mine, out)
    with pytest.raises(ValueError, match="out has the shape"):
        hvd.allreduce(mine, out=np.zeros(4, "int32"))


def test_odd_layouts(rank, size):
    base = np.arange(24, dtype="float32").reshape(4, 6) + rank
    expected = sum(np.arange(24, dtype="float32").reshape(4, 6) + each for each in range(size))
    for view in (lambda a: a[:, ::2], lambda a: a.T, lambda a: a[::-1], np.asfortranarray):
        result = hvd.allreduce(view(base), hvd.Sum)
        np.testing.assert_array_equal(result, view(expected))
        copy = base.copy()
        part = view(copy)
        hvd.allreduce(part, hvd.Sum, out=part)  # written through the view
        np.testing.assert_array_equal(part, view(expected))
    base[:, 1::2] = -1  # other elements stay
    part = base[:, ::2]
    hvd.broadcast(part, 0, out=part)
    assert (base[:, 1::2] == -1).all()


def test_read_only(size):
    fixed = np.ones(3)
    fixed.flags.writeable = False
    np.testing.assert_array_equal(hvd.allreduce(fixed, hvd.Sum), [size] * 3)
    with pytest.raises(ValueError, match="read-only"):
        hvd.allreduce(fixed, out=fixed)
    np.testing.assert_array_equal(hvd.allreduce(b"ab", hvd.Max), [97, 98])


def test_other_kinds_of_arrays(rank, size):
    class Interface:
        def __init__(self, inner):
            self.inner = inner
            self.__array_interface__ = inner.__array_interface__

    total = sum(range(1, size + 1))
    mine = np.full(3, rank + 1.0)
    for thing in (
        array.array("d", mine),
        memoryview(mine),
        Interface(mine),
        list(mine),
        mine[0],
    ):
        assert np.ravel(hvd.allreduce(thing, hvd.Sum))[0] == total
    held = array.array("d", mine)
    hvd.allreduce(held, hvd.Sum, out=held)
    assert held[2] == total


class OfDlpack:
    """What a library with DLPack and nothing else gives, on a device of this number."""

    def __init__(self, inner, device=1):
        self.inner, self.device = inner, device

    def __dlpack__(self, **arguments):
        return self.inner.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.device, 0


@pytest.mark.skipif(not hasattr(np, "from_dlpack"), reason="numpy before 1.23 reads no DLPack")
def test_dlpack(size):
    mine = np.arange(3.0)
    for thing in (OfDlpack(mine), OfDlpack(mine, 3)):
        assert hvd.allreduce(thing, hvd.Sum).tolist() == (mine * size).tolist()
    with pytest.raises(ValueError, match="type OfDlpack: its memory is on a device; copy it"):
        hvd.allreduce(OfDlpack(mine, 2))
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="numpy cannot read its DLPack"):
        hvd.allreduce(OfDlpack(torch.ones(2, dtype=torch.bfloat16)))


def test_refused_types():
    for bad in (
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.zeros(2, "complex64"),
        np.zeros(2, "uint32"),
        np.array(["x"]),
        np.zeros(2, ">f4"),
        object(),
    ):
        with pytest.raises(ValueError, match="hvd cannot use an (array|object) of type"):
            hvd.allreduce(bad)


def test_allgather_uneven(rank, size):
    mine = np.full((rank, 2), rank, "int16")
    expected = np.concatenate([np.full((each, 2), each, "int16") for each in range(size)])
    result = hvd.allgather(mine)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    with pytest.raises(hvd.HvdError, match="scalar"):
        hvd.allgather(np.float32(1))


def test_results_outlive_everything(rank, size):
    first = hvd.allgather(np.full(1000, rank))
    view = first[-10:]
    del first
    for _ in range(50):
        hvd.allgather(np.zeros(1000))
    gc.collect()
    assert (view == size - 1).all()


def test_broadcast(rank, size):
    for root in range(size):
        np.testing.assert_array_equal(hvd.broadcast(np.array([rank, 7]), root), [root, 7])
    with pytest.raises(ValueError, match="root"):
        hvd.broadcast(np.zeros(1), size)


def test_alltoall(rank, size):
    mine = np.array([[rank, to] for to in range(size) for _ in range(to)]).reshape(-1, 2)
    result, counts = hvd.alltoall(mine, splits=list(range(size)))
    assert counts == [rank] * size
    np.testing.assert_array_equal(
        result,
        np.array([[source, rank] for source in range(size) for _ in range(rank)]).reshape(-1, 2),
    )
    even, counts = hvd.alltoall(np.full(2 * size, rank))
    assert counts == [2] * size and list(even) == [each for each in range(size) for _ in range(2)]
    with pytest.raises(ValueError, match="the length of splits is"):
        hvd.alltoall(mine, splits=[0] * (size + 1))


def test_reduce(rank, size):
    inputs = all_inputs(size, (5, 3), "float32")
    for root in range(size):
        result = hvd.reduce(inputs[rank], root, hvd.Sum, "to a root")
        scalar = hvd.reduce(np.float32(rank), root)
        if rank != root:
            assert result is None and scalar is None
            continue
        np.testing.assert_array_equal(result, sum(inputs))
        assert scalar.shape == () and scalar == np.float32((size - 1) / 2)
    mine = inputs[rank].copy()
    handle = hvd.reduce_async(mine, size - 1, hvd.Max, out=mine)
    assert handle.wait() is (mine if rank == size - 1 else None)
    expected = np.max(inputs, axis=0) if rank == size - 1 else inputs[rank]
    np.testing.assert_array_equal(mine, expected)
    with pytest.raises(hvd.InvalidError, match="reduce .*: root is %d; expected" % size):
        hvd.reduce(mine, size)


def test_gather(rank, size):
    mine = np.full((rank, 2), rank, "int32")
    for root in range(size):
        result = hvd.gather(mine, root, "to a root")
        if rank != root:
            assert result is None
            continue
        assert result.dtype == "int32"
        assert result.tolist() == [[each, each] for each in range(size) for _ in range(each)]
    with pytest.raises(hvd.InvalidError, match="gather .*: root is -1; expected"):
        hvd.gather(mine, -1)


def test_scatter(rank, size):
    rows = np.array([[to, 0] for to in range(size) for _ in range(to)])
    for root in range(size):
        # elsewhere only the type and the other dimensions count
        given = rows.reshape(-1, 2) if rank == root else np.empty((7, 2), "int64")
        splits = list(range(size)) if rank == root else None
        assert hvd.scatter(given, root, splits, "from a root").tolist() == [[rank, 0]] * rank
        even = np.repeat(np.arange(size), 2) if rank == root else np.empty(0, "int64")
        assert hvd.scatter_async(even, root).wait().tolist() == [rank] * 2
    if rank == 0:
        with pytest.raises(hvd.InvalidError, match="scatter: the length of splits is"):
            hvd.scatter(rows, 0, [1] * (size + 1))


def test_roots_in_a_set_and_roots_that_differ(rank, size):
    if size < 3:
        pytest.skip("two members of a set without rank 0 are needed")
    members = hvd.add_process_set([1, 2])
    if rank in (1, 2):
        gathered = hvd.gather(np.full(1, rank), 2, process_set=members)
        assert (gathered is None) if rank == 1 else (gathered.tolist() == [1, 2])
        total = hvd.reduce(np.full(1, rank), 1, hvd.Sum, process_set=members)
        assert (total is None) if rank == 2 else (total.tolist() == [3])
        with pytest.raises(hvd.InvalidError, match="expected a member of process set"):
            hvd.scatter(np.ones(2), 0, process_set=members)
    hvd.remove_process_set(members)
    mine, root = np.ones(size), 1 if rank == 0 else 0
    for call in (
        lambda: hvd.reduce(mine, root, name="roots"),
        lambda: hvd.gather(mine, root, "roots"),
        lambda: hvd.scatter(mine, root, name="roots"),
    ):
        with pytest.raises(hvd.MismatchError, match="rank 0 .* has root 1[,;]"):
            call()


def test_reducescatter(rank, size):
    inputs = all_inputs(size, (2 * size + 1, 3), "float32")
    total = sum(inputs)
    begin = rank * 2 + min(rank, 1)
    result = hvd.reducescatter(inputs[rank], hvd.Sum)
    np.testing.assert_array_equal(result, total[begin : begin + 2 + (rank == 0)])
    with pytest.raises(hvd.HvdError):
        hvd.reducescatter(np.float32(1))


def test_reducescatter_by_splits(rank, size):
    splits = np.arange(size)[::-1] * 2 + 1
    begin, end = sum(splits[:rank]), sum(splits[: rank + 1])
    inputs = all_inputs(size, (size * size, 3), "float32")
    for _ in range(2):
        result = hvd.reducescatter(inputs[rank], hvd.Sum, "shares", splits=splits)
        np.testing.assert_array_equal(result, sum(inputs)[begin:end])
    only = [size * size] + [0] * (size - 1)
    result = hvd.reducescatter(inputs[rank], hvd.Max, "shares", splits=only)
    assert result.shape == ((size * size if rank == 0 else 0), 3)
    np.testing.assert_array_equal(result, np.max(inputs, axis=0)[: len(result)])
    for wrong in ([1] * (size + 1), ["1"] * size, [-1] + [2] * (size - 1)):
        with pytest.raises(hvd.InvalidError, match="reducescatter"):
            hvd.reducescatter(inputs[rank], hvd.Sum, splits=wrong)


def test_groups(rank, size):
    mine = [np.full(3, rank, "float32"), np.full((2, 2), rank, "int64")]
    total = sum(range(size))
    for _ in range(2):
        one, two = hvd.grouped_allreduce(mine, hvd.Sum)
        assert one.dtype == "float32" and (one == total).all() and (two == total).all()
    one, two = hvd.grouped_allgather(mine, name="g")
    assert one.shape == (3 * size,) and two.shape == (2 * size, 2)
    one, two = hvd.grouped_reducescatter([np.ones(size), np.ones((size, 2))], hvd.Sum)
    assert (one == size).all() and two.shape == (1, 2)
    with pytest.raises(ValueError):
        hvd.grouped_allreduce([])


def test_in_place_again(rank, size):
    """Tensors that come back under the same name are submitted by a plan, unless something has
    changed."""
    mine = np.zeros(6, "float32")
    for op, expected in ((hvd.Sum, size), (hvd.Sum, size), (hvd.Max, 1), (hvd.Average, 1)):
        mine[:] = 1
        assert hvd.allreduce(mine, op, "again", out=mine) is mine and (mine == expected).all()
    mine.shape = (2, 3)
    hvd.allreduce(mine, hvd.Sum, "again", out=mine)
    mine = np.full(5000, float(rank))
    hvd.allreduce(mine, hvd.Sum, "again", out=mine)
    assert mine[4999] == sum(range(size))
    mine.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        hvd.allreduce(mine, hvd.Sum, "again", out=mine)
    group = [np.full(3, 1.0), np.full(4, 2.0)]
    for step in range(3):
        found = hvd.grouped_allreduce(group, hvd.Sum, "group again", outs=group)
        assert found[1] is group[1] and group[1][0] == 2 * size ** (step + 1)
        if step == 1:
            group[0] = np.full(3, 1.0)  # another array of the same name
    assert group[0][0] == size


def test_asynchronous_and_dropped_handles(rank, size):
    handles = [
        hvd.allreduce_async(np.full(1000, rank + i), hvd.Sum, name="a%d" % i) for i in range(20)
    ]
    order = handles if rank % 2 else handles[::-1]
    for handle in order:
        handle.wait()
    assert all(handle.done() for handle in handles)
    assert handles[3].wait()[0] == sum(range(size)) + 3 * size
    for _ in range(2000):  # more than there are made-up names
        hvd.allreduce_async(np.full(100, 1.0))
    gc.collect()
    assert hvd.allreduce(np.ones(1))[0] == 1


def test_made_up_names_in_flight(rank, size):
    """More unnamed operations in flight than there are made-up names; the first rank waits
    meanwhile."""
    handles = [hvd.allreduce_async(np.array([i]), hvd.Sum) for i in range(600)]
    assert [int(handle.wait()[0]) for handle in handles] == [i * size for i in range(600)]


def test_mismatch_and_duplicate(rank, size):
    if size > 1:
        with pytest.raises(hvd.MismatchError, match='"m"'):
            hvd.allreduce(np.ones(3 + (rank == 0)), name="m")
        with pytest.raises(RuntimeError, match="float32"):
            hvd.allreduce(np.ones(3, "float32" if rank else "float64"), name="m2")
        if rank == 0:
            handle = hvd.allreduce_async(np.ones(1), name="twice")
            with pytest.raises(hvd.DuplicateError, match='"twice"'):
                hvd.allreduce_async(np.ones(1), name="twice")
        hvd.barrier()
        if rank:
            handle = hvd.allreduce_async(np.ones(1), name="twice")
        handle.wait()
    with pytest.raises(ValueError):
        hvd.allreduce(np.ones(1), name="")


def test_join(rank, size):
    for _ in range(rank + 1):
        last = hvd.allreduce(np.ones(2), hvd.Sum, name="j")
    assert last[0] == size - rank
    assert hvd.join() == size - 1
    hvd.barrier()


def test_process_sets(rank, size, evens):
    assert evens.ranks == list(range(0, size, 2)) and evens.size() == len(evens.ranks)
    assert evens.included() == (rank % 2 == 0)
    assert evens.process_set_id in hvd.process_set_ids()
    if evens.included():
        assert evens.rank() == rank // 2
        assert hvd.allreduce(np.array([rank]), hvd.Sum, process_set=evens)[0] == sum(evens.ranks)
        assert list(hvd.allgather(np.array([rank]), process_set=evens)) == evens.ranks
        assert hvd.broadcast_object({"x": rank}, evens.ranks[-1], process_set=evens) == {
            "x": evens.ranks[-1]
        }
        hvd.barrier(evens)
    else:
        with pytest.raises(hvd.SetError):
            hvd.allreduce(np.ones(1), process_set=evens)
    with pytest.raises(hvd.DuplicateError):
        hvd.add_process_set(evens.ranks)
    with pytest.raises(hvd.StateError, match="not known"):
        hvd.barrier(hvd.ProcessSet([0]))


def test_objects(rank, size):
    thing = {"rank": rank, "more": [None, "x" * 10000 * rank]}
    found = hvd.allgather_object(thing)
    assert [each["rank"] for each in found] == list(range(size)) and found[rank] == thing
    assert hvd.broadcast_object(thing, size - 1)["rank"] == size - 1
    with pytest.raises(ValueError, match="max_bytes" if rank == 0 else "says why|max_bytes"):
        hvd.broadcast_object("x" * 100, 0, max_bytes=10)
    with pytest.raises(Exception):
        hvd.broadcast_object(lambda: 0, 0)  # cannot be pickled: an error on every rank
    assert hvd.broadcast_object("fine", 0) == "fine"


def test_alloc(rank, size):
    shared = hvd.alloc((3, 4), "float64")
    assert not shared.any()
    shared[:] = rank
    part = shared[1:]
    assert (hvd.allreduce(part, hvd.Sum, out=part) == sum(range(size))).all()
    del shared
    gc.collect()
    part += 1
    assert hvd.alloc((0, 3)).shape == (0, 3)
    for _ in range(100):
        hvd.alloc(1000000)
    hvd.barrier()


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"name": 5}, "the name 5: expected a string"),
        ({"name": "a\0b"}, "without"),
        ({"name": ""}, "needs a name"),
        ({"op": "sum"}, "op='sum': expected one of hvd.Sum, hvd.Average"),
        ({"op": 17}, "op is 17"),
        ({"process_set": "all"}, "process_set='all': expected a ProcessSet"),
        ({"process_set": 1 << 32}, "process_set=4294967296: expected a whole number below 2"),
        ({"op": 1 << 32}, "op=4294967296: expected a whole number"),
        ({"process_set": hvd.ProcessSet([0])}, "pass it to add_process_set"),
        ({"prescale": float("nan")}, "prescale is nan"),
    ],
)
def test_mistakes(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        hvd.allreduce(np.ones(2), **arguments)


@pytest.mark.parametrize("root", [1 << 32, 1 << 70, 0.0, None])
def test_roots_that_are_none(root):
    with pytest.raises(ValueError, match="root_rank=.*: expected a whole number below 2"):
        hvd.broadcast(np.ones(2), root)


def test_outs_for_each_tensor():
    with pytest.raises(ValueError, match="1 outs for 2 tensors"):
        hvd.grouped_allreduce([np.ones(2), np.ones(2)], outs=[np.ones(2)])
