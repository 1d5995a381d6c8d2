"""Messages between two ranks, of numpy arrays and torch tensors."""
import gc
import threading
import time

import numpy as np
import pytest

import hvd


def ring(rank, size):
    """The ranks to which this one sends, and from which it receives."""
    return (rank + 1) % size, (rank - 1) % size


def passed_on(rank, size, out, into, **arguments):
    """Send one to the next rank, and receive one from the rank before; returns who sent it."""
    to, source = ring(rank, size)
    handle = hvd.isend(out, to, **arguments)
    found = hvd.recv(into, source, **arguments)
    assert handle.wait() is None
    return found


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 8193, 1 << 20])
def test_sizes(rank, size, count):
    into = np.full(count, -1, np.int32)
    source = passed_on(rank, size, np.arange(count, dtype=np.int32) + rank, into, tag=5)
    assert source == ring(rank, size)[1]
    assert np.array_equal(into, np.arange(count, dtype=np.int32) + source)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "int64", "bool"])
def test_types(rank, size, dtype):
    into = np.zeros((2, 3), dtype)
    passed_on(rank, size, np.ones((2, 3), dtype), into)
    assert into.all()


def test_any_shape_of_as_many_elements(rank, size):
    into = np.zeros((3, 2))
    passed_on(rank, size, np.arange(6.0), into)
    assert into.tolist() == [[0, 1], [2, 3], [4, 5]]
    scalar = np.zeros(())
    passed_on(rank, size, 2.5, scalar)
    assert scalar == 2.5


def test_what_is_not_contiguous(rank, size):
    """The places between stay as they are; also where nobody waits for the receive."""
    into, wide = np.zeros(6), np.arange(6.0)
    passed_on(rank, size, wide[::2], into[1::2])
    assert into.tolist() == [0, 0, 0, 2, 0, 4]
    to, source = ring(rank, size)
    hvd.irecv(into[::2], source, 3)
    hvd.send(wide[1::2], to, 3)
    end = time.monotonic() + 60
    while into[0] == 0 and time.monotonic() < end:  # operations look after dropped handles
        hvd.exchange([hvd.Send(0, rank, 8), hvd.Recv(np.zeros(1, int), rank, 8)])
    assert into.tolist() == [1, 0, 3, 2, 5, 4]


def test_a_read_only_array_is_sent(rank, size):
    into = np.zeros(2)
    constant = np.ones(2)
    constant.setflags(write=False)
    passed_on(rank, size, constant, into)
    assert into.tolist() == [1, 1]


def test_order_and_tags(rank, size):
    """In their order with one tag, whatever comes with others."""
    to, source = ring(rank, size)
    handles = [hvd.isend(np.array([i]), to, i % 2) for i in range(10)]
    found = {0: [], 1: []}
    for tag in (1, 0):
        for _ in range(5):
            into = np.zeros(1, int)
            hvd.recv(into, source, tag)
            found[tag].append(int(into[0]))
    assert found == {0: [0, 2, 4, 6, 8], 1: [1, 3, 5, 7, 9]}
    for each in handles:
        each.wait()


def test_from_any_rank(rank, size):
    """Each tells who it is, and rank 0 is told by hvd, too."""
    if rank:
        return hvd.send(np.array([rank]), 0, 7)
    into, sources = np.zeros(1, int), set()
    for _ in range(size - 1):
        sources.add(hvd.recv(into, tag=7))
        assert int(into[0]) in sources
    assert sources == set(range(1, size))


def test_exchange(rank, size):
    """A cycle of large messages, which one after another would wait for ever, and this rank."""
    to, source = ring(rank, size)
    out, into, own = np.full(1 << 20, float(rank)), np.zeros(1 << 20), np.zeros(3, np.int16)
    ends = hvd.exchange(
        [
            hvd.Send(out, to),
            hvd.Recv(into, source),
            hvd.Recv(own, tag=9),
            hvd.Send(np.array([1, 2, 3], np.int16), rank, 9),
        ]
    )
    assert ends == [to, source, rank, rank]
    assert (into == source).all() and own.tolist() == [1, 2, 3]
    handle = hvd.exchange_async([hvd.Send(out, to), hvd.Recv(into, hvd.ANY_SOURCE)])
    assert handle.wait() == [to, source]


def test_process_sets(rank, size):
    """Ranks are those of the job, and another set's message with that tag is another's."""
    members = sorted({0, size - 1})
    there = hvd.add_process_set(members) if size > 2 else hvd.global_process_set
    if rank == members[-1]:
        hvd.isend(np.array([2]), 0, 1)
        hvd.isend(np.array([1]), 0, 1, process_set=there)
    if rank == 0:
        into = np.zeros(1, int)
        sender = hvd.recv(into, tag=1, process_set=there)
        assert (sender, int(into[0])) == (members[-1], 1 if size > 2 else 2)
        hvd.recv(into, members[-1], 1)
        assert int(into[0]) == (2 if size > 2 else 1)
    if size > 2:
        with pytest.raises(hvd.InvalidError, match="rank is 1; expected a member of process set"):
            hvd.send(np.zeros(1), 1, process_set=there) if rank in members else refuse_member()
        hvd.remove_process_set(there)


def refuse_member():
    raise hvd.InvalidError("rank is 1; expected a member of process set")


def test_thousands_in_flight(rank, size):
    to, source = ring(rank, size)
    into = np.zeros((3000, 2), int)
    receives = [hvd.irecv(into[i], source, i) for i in range(3000)]
    for i in reversed(range(3000)):
        hvd.isend(np.array([i, rank]), to, i)  # nobody waits for it
    gc.collect()
    assert [each.wait() for each in receives] == [source] * 3000
    assert into[:, 0].tolist() == list(range(3000)) and (into[:, 1] == source).all()


def test_what_nobody_waits_for_arrives(rank, size):
    """The memory of a send stays until it is done."""
    to, source = ring(rank, size)
    for i in range(8):
        hvd.isend(np.full(1 << 18, i, float), to, 2)
    gc.collect()
    hvd.barrier()
    for i in range(8):
        into = np.zeros(1 << 18)
        hvd.recv(into, source, 2)
        assert (into == i).all()


def test_threads(rank, size):
    """Each sends with a tag of its own."""
    to, source = ring(rank, size)
    found = [None] * 8

    def turn(tag):
        into = np.zeros(5000, int)
        for i in range(20):
            sent = hvd.isend(np.full(5000, 100 * tag + i), to, tag)
            hvd.recv(into, source, tag)
            sent.wait()
            assert (into == 100 * tag + i).all()
        found[tag] = True

    threads = [threading.Thread(target=turn, args=(tag,)) for tag in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(found)


def test_a_wait_with_a_limit_may_be_repeated(rank, size):
    to, source = ring(rank, size)
    into = np.zeros(1)
    handle = hvd.irecv(into, source, 4)
    assert not handle.done() and not handle.wait_for(0.05)
    assert handle.name == "recv from rank %d with tag 4" % source
    hvd.barrier()
    hvd.send(np.ones(1), to, 4)
    assert handle.wait() == source and into[0] == 1


def refused(match, call, *arguments, error=hvd.InvalidError, **named):
    with pytest.raises(error, match=match):
        call(*arguments, **named)


def test_wrong_arguments(rank, size):
    one = np.zeros(1)
    refused("rank is %d; expected 0 to %d" % (size, size - 1), hvd.send, one, size)
    refused("rank is -1; expected 0 to", hvd.send, one, hvd.ANY_SOURCE)
    refused("rank is -2; .* or hvd.ANY_SOURCE", hvd.recv, one, -2)
    refused("tag is -1; expected 0 or more", hvd.isend, one, 0, -1)
    refused("tag=1.5: expected a whole number", hvd.irecv, one, 0, 1.5)
    refused("rank='0': expected a whole number", hvd.irecv, one, "0")
    refused("list: nothing can be received into it", hvd.recv, [1.0])
    refused("float64: nothing can be received into it", hvd.recv, np.float64(1))
    one.setflags(write=False)
    refused("it is read-only: pass a copy", hvd.recv, one)
    refused("count is 0; expected 1 to", hvd.exchange, [])
    refused("message 1 is of type tuple; expected hvd.Send", hvd.exchange,
            [hvd.Send(one, 0), (one, 0)])  # fmt: skip
    refused(r"messages\[1\]: recv: tag is -3", hvd.exchange,
            [hvd.Send(one, 0), hvd.Recv(np.zeros(1), 0, -3)])  # fmt: skip
    refused("type <U1", hvd.send, np.array(["a"]), 0)
    refused("no such process set|no process set", hvd.send, one, 0, process_set=77,
            error=hvd.SetError)  # fmt: skip


def test_ends_that_disagree(rank, size):
    """What follows arrives."""
    to, source = ring(rank, size)
    out, into = hvd.isend(np.ones(100000), to, 6), hvd.irecv(np.zeros(99999), source, 6)
    for handle in (out, into):
        refused(r"float64\[100000\], rank .* receives float64\[99999\]", handle.wait,
                error=hvd.MismatchError)  # fmt: skip
    into = np.zeros(2)
    passed_on(rank, size, np.ones(2), into, tag=6)
    assert into.all()


# ---- torch --------------------------------------------------------------------------------------


def test_tensors_of_torch(rank, size):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
        into = torch.zeros(4, dtype=dtype)
        passed_on(rank, size, torch.ones(4, dtype=dtype), into)
        assert into.all()
    table = torch.zeros(3, 4)
    passed_on(rank, size, torch.arange(3.0), table[:, 1])  # a column
    assert table[:, 1].tolist() == [0, 1, 2] and float(table.sum()) == 3
    leaf = torch.nn.Parameter(torch.zeros(2, 2))
    passed_on(rank, size, leaf.detach() + 2, leaf.t())
    assert leaf.tolist() == [[2, 2], [2, 2]] and leaf.requires_grad
    scalar = torch.zeros(())
    passed_on(rank, size, torch.tensor(7.0), scalar)
    assert scalar == 7
    refused("layout torch.sparse_coo: make it dense", hvd.send, torch.ones(2).to_sparse(), 0)
    refused("view complex tensors by", hvd.send, torch.zeros(2, dtype=torch.complex64), 0)
