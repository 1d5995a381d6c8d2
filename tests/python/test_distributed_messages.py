"""Messages of torch.distributed: send, recv and their like, and what is built of them. The backend
gloo, in the same job, says what is right where it knows the call."""
import contextlib
import datetime
import threading

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402
from hvd import _work  # noqa: E402

pytestmark = pytest.mark.usefixtures("group")


@pytest.fixture
def ends(rank, size):
    """The ranks to which this one sends, and from which it receives."""
    if size == 1:
        pytest.skip("torch sends nothing to the rank itself")
    return (rank + 1) % size, (rank - 1) % size


def seconds(number):
    return datetime.timedelta(seconds=number)


# ---- One message --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_send_and_recv(rank, size, ends, backend):
    group = dist.new_group(backend=backend)
    for shape in ((3, 2), (0,), (), (300000,)):
        into = torch.full(shape, -1.0)
        work = dist.isend(torch.full(shape, rank + 1.0), ends[0], group)
        assert dist.recv(into, ends[1], group) == ends[1]
        work.wait()
        assert (into == ends[1] + 1).all() and work.is_completed()


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_recv_from_any_rank(rank, size, ends, backend):
    """A rank of the job, also in a group whose members have other numbers."""
    some = sorted({0, size - 2, size - 1} - {0 if size > 2 else size})
    there = dist.new_group(some, backend=backend)
    for group, members in ((dist.new_group(backend=backend), range(size)), (there, some)):
        if rank == members[0]:
            into, found = torch.zeros(1), []
            for _ in members[1:]:
                found.append(dist.recv(into, None, group, 3))
                assert into.item() == found[-1]
            assert sorted(found) == list(members[1:])
        elif rank in members:
            dist.send(torch.full((1,), float(rank)), members[0], group, 3)


def test_who_sent_it(group, rank, size, ends):
    work = dist.irecv(torch.zeros(1), None, tag=2)
    with pytest.raises(hvd.StateError, match="from any rank with tag 2 has received nothing"):
        work._source_rank()
    sent = dist.isend(torch.zeros(1), ends[0], tag=2)
    work.wait()
    assert work._source_rank() == work.source_rank() == ends[1]
    sent.wait()
    with pytest.raises(hvd.StateError, match="send to rank"):
        sent.source_rank()


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_tags(rank, size, ends, backend):
    group = dist.new_group(backend=backend)
    works = [dist.isend(torch.tensor([10.0 * tag]), ends[0], group, tag) for tag in range(4)]
    for tag in (3, 1, 0, 2):
        into = torch.zeros(1)
        dist.recv(into, ends[1], group, tag)
        assert into.item() == 10 * tag
    for work in works:
        work.wait()


def test_groups_with_the_same_members_have_messages_of_their_own(rank, size, ends):
    groups = [dist.group.WORLD or None, dist.new_group(), dist.new_group()]
    works = [
        dist.isend(torch.full((1,), float(i)), ends[0], group, 7) for i, group in enumerate(groups)
    ]
    hvd.isend(torch.full((1,), 9.0), ends[0], 7)  # of the first group, by another name
    for i in (2, 1, 0):
        into = torch.zeros(1)
        dist.recv(into, ends[1], groups[i], 7)
        assert into.item() == i
    hvd.recv(into, ends[1], 7)
    assert into.item() == 9
    for work in works:
        work.wait()


def test_lists_and_tensors(group, rank, size):
    """A message to this rank itself, in the forms of the methods."""
    into = torch.zeros(2, 2)
    works = [group.send([torch.ones(2)], rank, 5), group.send(torch.ones(2), rank, 5)]
    group.recv([into[0]], rank, 5).wait()
    group.recv(into[:, 1], rank, 5).wait()  # a column
    assert into.tolist() == [[1, 1], [0, 1]]
    for work in works:
        work.wait()


def test_wrong_arguments(group, rank, size):
    one = torch.ones(1)
    for call, match in (
        (lambda: group.send([one], size, 0), "send: the other end is %d; expected a member" % size),
        (lambda: group.recv([one], -1, 0), "recv: the other end is -1; expected a member"),
        (lambda: group.send([one], 0, -1), "send: the tag is -1; expected 0 to 1048574"),
        (lambda: group.recv_anysource([one], 1048575), "recv: the tag is 1048575; expected 0 to"),
        (lambda: group.send([one, one], 0, 0), "send: the list has 2 tensors; expected one"),
        (lambda: group.send([one.to_sparse()], 0, 0), "make it dense"),
    ):
        with pytest.raises(hvd.InvalidError, match=match):
            call()


def test_ends_that_disagree(rank, size, ends):
    """The sentence has the tag that torch was told; what follows arrives."""
    group = dist.new_group()
    work = dist.isend(torch.ones(40000), ends[0], group, 4)
    match = r"recv from rank %d with tag 4: rank .* sends float32\[40000\], .*int32\[3\]" % ends[1]
    with pytest.raises(hvd.MismatchError, match=match):
        dist.recv(torch.zeros(3, dtype=torch.int32), ends[1], group, 4)
    with pytest.raises(hvd.MismatchError, match="send to rank %d with tag 4: " % ends[0]):
        work.wait()
    test_send_and_recv(rank, size, ends, None)


# ---- Works --------------------------------------------------------------------------------------


def test_a_barrier_does_not_wait_for_messages(rank, size, ends):
    """Their other ends may come after it."""
    into = torch.zeros(1)
    work = dist.irecv(into, ends[1])
    dist.barrier()
    dist.send(torch.ones(1), ends[0])
    work.wait()
    assert into.item() == 1


def test_messages_that_nobody_waits_for(rank, size, ends):
    """More of them than works are kept at least, into places that are not contiguous, too."""
    table = torch.zeros(200, 3)
    for i in range(200):
        dist.irecv(table[i], ends[1], tag=i)
        dist.isend(torch.full((3,), i + 1.0), ends[0], tag=i)
    column, last = torch.zeros(4, 2), torch.zeros(1)
    dist.irecv(column[:, 1], ends[1], tag=200)
    dist.isend(torch.ones(4), ends[0], tag=200)
    work = dist.isend(last, ends[0], tag=201)
    dist.recv(last, ends[1], tag=201)
    work.wait()
    for each in _work._pending.works():
        each.wait()
    assert table[:, 2].tolist() == [i + 1.0 for i in range(200)]
    assert column[:, 1].tolist() == [1.0] * 4


def test_thousands_in_flight(rank, size, ends):
    into = torch.zeros(3000, 2)
    works = [dist.irecv(into[i], ends[1], tag=i) for i in range(3000)]
    for i in reversed(range(3000)):
        works.append(dist.isend(torch.tensor([i, rank + 0.5]), ends[0], tag=i))
    for work in works:
        work.wait()
    assert into[:, 0].tolist() == list(range(3000)) and (into[:, 1] == ends[1] + 0.5).all()


@pytest.mark.parametrize("waits_first", [True, False])
def test_futures(rank, size, ends, waits_first):
    """One that is not done yet keeps no other from being done."""
    later, into = torch.zeros(1), torch.zeros(1)
    never = dist.irecv(later, ends[1], tag=1).get_future()
    work = dist.irecv(into, ends[1])
    sent = dist.isend(torch.ones(1), ends[0])
    if waits_first:
        work.wait()
    done = threading.Event()
    work.get_future().add_done_callback(lambda _: done.set())
    assert done.wait(60) and into.item() == 1
    total = torch.ones(1)
    reduced = threading.Event()
    future = dist.all_reduce(total, async_op=True).get_future()
    future.add_done_callback(lambda _: reduced.set())
    assert reduced.wait(60) and not never.done()
    sent.wait()
    hvd.barrier()
    dist.send(torch.ones(1), ends[0], tag=1)
    assert never.wait()[0].item() == 1


def test_timeouts(rank, size, ends):
    """A wait that ends earlier may be repeated; the timeout of the group ends the group."""
    group, into = dist.new_group(timeout=seconds(0.6)), torch.zeros(1)
    work = dist.irecv(into, ends[1], group, 8)
    text = "recv from rank %d with tag 8" % ends[1]
    with pytest.raises(RuntimeError, match=text + " is not done after a wait of 0.1 s"):
        work.wait(seconds(0.1))
    with pytest.raises(RuntimeError, match=text + " was not done after 0.6 s, the timeout of"):
        work.wait()
    with pytest.raises(RuntimeError, match="is of no use from then on"):
        dist.isend(into, ends[0], group)
    hvd.barrier()
    hvd.send(torch.ones(1), ends[0], group._tag_base + 8)  # so that nothing is left at the end
    work._handle.wait()
    test_send_and_recv(rank, size, ends, None)


def test_threads(rank, size, ends):
    """Each sends with a tag of its own."""
    found = [None] * 6

    def turn(tag):
        into = torch.zeros(3000)
        for i in range(20):
            work = dist.isend(torch.full((3000,), float(i)), ends[0], tag=tag)
            dist.recv(into, ends[1], tag=tag)
            work.wait()
            assert (into == i).all()
        found[tag] = True

    threads = [threading.Thread(target=turn, args=(tag,)) for tag in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(found)


# ---- Several as one -----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_batches(rank, size, ends, backend):
    """In a ring, of tensors that one after another would wait for ever."""
    group = dist.new_group(backend=backend)
    out, into = torch.full((300000,), float(rank)), torch.zeros(2, 300000)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, out, ends[0], group),
            dist.P2POp(dist.isend, out + 0.5, ends[1], group, tag=1),
            dist.P2POp(dist.irecv, into[0], ends[1], group),
            dist.P2POp(dist.irecv, into[1], ends[0], group, tag=1),
        ]
    )
    for work in works:
        work.wait()
    assert (into[0] == ends[1]).all() and (into[1] == ends[0] + 0.5).all()


def test_coalescing(group, rank, size):
    """As batch_isend_irecv does it for tensors on a GPU: one work for all."""
    into, total, to = torch.zeros(4), torch.ones(2), (rank + 1) % size
    group._start_coalescing(torch.device("cpu"))
    group.recv([into], (rank - 1) % size, 0)
    group.allreduce([total])
    group.send([torch.full((4,), rank + 1.0)], to, 0)
    work = group._end_coalescing(torch.device("cpu"))
    assert len(work.get_future().wait()) == 3
    work.wait(seconds(60))
    assert work.is_completed() and work.is_success()
    assert into.tolist() == [(rank - 1) % size + 1.0] * 4 and total.tolist() == [size] * 2
    assert group._end_coalescing(torch.device("cpu")).wait()  # of none


def test_an_error_of_coalesced_operations(group, rank, size, ends):
    group._start_coalescing(torch.device("cpu"))
    group.send([torch.ones(40000)], ends[0], 0)
    group.recv([torch.zeros(3)], ends[1], 0)
    work = group._end_coalescing(torch.device("cpu"))
    with pytest.raises(hvd.MismatchError, match="give both the same"):
        work.wait()


@pytest.mark.parametrize("device", [None, torch.device("cpu")])
def test_coalescing_manager(rank, size, device):
    if not hasattr(dist.distributed_c10d, "_CoalescingManager"):
        pytest.skip("torch 2 has _CoalescingManager")
    manager = dist.distributed_c10d._coalescing_manager
    tensors = [torch.ones(2), torch.ones(3)]
    with manager(device=device, async_ops=True) as coalesced:
        for each in tensors:
            dist.all_reduce(each)
    coalesced.wait()
    assert [each[0].item() for each in tensors] == [size, size]
    outputs = [torch.zeros(size), torch.zeros(2 * size)]
    with manager(device=device):
        for i, each in enumerate(outputs):
            dist.all_gather_into_tensor(each, torch.full((i + 1,), float(rank)))
    assert outputs[1].view(size, 2)[:, 0].tolist() == list(range(size))
    share = torch.zeros(1)
    with manager(device=device):
        dist.reduce_scatter_tensor(share, torch.arange(float(size)))
    assert share.item() == rank * size


def objects_from(sender, found, names_nobody):
    """The rank that sent them. Some versions of torch refuse a receiver that names nobody."""
    if names_nobody:
        with contextlib.suppress(ValueError):
            return dist.recv_object_list(found, None)
    return dist.recv_object_list(found, sender)


def test_objects(rank, size, ends):
    if not hasattr(dist, "send_object_list"):
        pytest.skip("torch 2.2 has send_object_list")
    sent, found = [{"rank": rank}, "x" * 100000, None], [None] * 3
    for sender in range(size):  # each call waits
        if rank == sender:
            dist.send_object_list(sent, ends[0])
        elif rank == (sender + 1) % size:
            assert objects_from(sender, found, sender % 2 == 1) == sender
    assert found == [{"rank": ends[1]}, "x" * 100000, None]


# ---- What is built of them ----------------------------------------------------------------------


def stage_of(rank):
    torch.manual_seed(rank)
    return torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())


def passed(*operations):
    """Send and receive at once, as pipelines do: a stage may need both to go on."""
    wanted = [each for each in operations if each is not None]
    for work in dist.batch_isend_irecv(wanted) if wanted else ():
        work.wait()


def one_forward_one_backward(rank, size, batches):
    """The losses of the last stage, and the stage with its gradients. Each stage computes forward
    for as many batches as there are stages after it, and then backward after each forward."""
    stage, losses, in_flight = stage_of(rank), [], []
    first, last, ahead = rank == 0, rank == size - 1, min(size - 1 - rank, len(batches))

    def receive(peer, like, absent):
        return None if absent else dist.P2POp(dist.irecv, like, peer)

    def send(peer, tensor, absent):
        return None if absent else dist.P2POp(dist.isend, tensor, peer)

    def forward(number, before):
        before = batches[number] if first else before.requires_grad_()
        after = stage(before)
        if last:
            losses.append(after.pow(2).mean())
        in_flight.append((before, losses[-1] if last else after))
        return after.detach()

    def backward(gradient):
        before, after = in_flight.pop(0)
        after.backward(None if last else gradient)
        return before.grad

    def room():
        return torch.zeros_like(batches[0])

    for number in range(ahead):
        before = room()
        passed(receive(rank - 1, before, first))
        passed(send(rank + 1, forward(number, before), last))
    before = room()
    passed(receive(rank - 1, before, first or ahead == len(batches)))
    for number in range(ahead, len(batches)):
        after, gradient = forward(number, before), room()
        passed(send(rank + 1, after, last), receive(rank + 1, gradient, last))
        given, before = backward(gradient), room()
        more = number + 1 < len(batches)
        passed(send(rank - 1, given, first), receive(rank - 1, before, first or not more))
    for _ in range(ahead):
        gradient = room()
        passed(receive(rank + 1, gradient, last))
        passed(send(rank - 1, backward(gradient), first))
    return losses, stage


def test_a_pipeline_is_one_process(rank, size):
    """1F1B: the gradients of each stage are those of all stages in one process."""
    torch.manual_seed(99)
    batches = [torch.randn(4, 6) for _ in range(7)]
    losses, stage = one_forward_one_backward(rank, size, batches)
    whole = [stage_of(each) for each in range(size)]
    expected = [torch.nn.Sequential(*whole)(each).pow(2).mean() for each in batches]
    sum(expected).backward()
    if rank == size - 1:
        assert torch.allclose(torch.stack(losses), torch.stack(expected))
    for found, wanted in zip(stage.parameters(), whole[rank].parameters()):
        assert torch.allclose(found.grad, wanted.grad, atol=1e-6)


def ring_attention(query, key, value, rank, size):
    """Each rank has its own part of the keys and values, which go round while the others' are used;
    the softmax is put together of its parts."""
    to, source = (rank + 1) % size, (rank - 1) % size
    highest = torch.full(query.shape[:1], float("-inf"))
    total, result = torch.zeros(query.shape[:1]), torch.zeros_like(query)
    for turn in range(size):
        works, coming = [], [torch.empty_like(key), torch.empty_like(value)]
        if turn + 1 < size:
            works = [dist.isend(each, to, tag=i) for i, each in enumerate((key, value))]
            works += [dist.irecv(each, source, tag=i) for i, each in enumerate(coming)]
        scores = query @ key.t()
        higher = torch.maximum(highest, scores.amax(1))
        weights, old = (scores - higher[:, None]).exp(), (highest - higher).exp()
        result = result * old[:, None] + weights @ value
        total, highest = total * old + weights.sum(1), higher
        for work in works:
            work.wait()
        key, value = coming
    return result / total[:, None]


def test_ring_attention_is_that_of_one_process(rank, size):
    torch.manual_seed(7)
    query, key, value = (torch.randn(5 * size, 8) for _ in range(3))
    mine = slice(5 * rank, 5 * rank + 5)
    found = ring_attention(query[mine], key[mine], value[mine], rank, size)
    expected = torch.softmax(query @ key.t(), 1) @ value
    assert torch.allclose(found, expected[mine], atol=1e-5)


@pytest.mark.parametrize("name", ["GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS"])
def test_the_pipelines_of_torch(rank, size, ends, name):
    """Its stages tell each other the shapes of what they send, as objects. The last two schedules
    have two stages on each rank."""
    reason = "torch 2.4 has torch.distributed.pipelining"
    pipelining = pytest.importorskip("torch.distributed.pipelining", reason=reason)
    torch.manual_seed(99)
    batch, target = torch.randn(2 * size, 6), torch.zeros(2 * size, 6)
    loss_of, one = torch.nn.functional.mse_loss, name in ("GPipe", "1F1B")
    count = size if one else 2 * size
    stages = [
        pipelining.PipelineStage(stage_of(each), each, count, torch.device("cpu"))
        for each in range(rank, count, size)
    ]
    kind = getattr(pipelining, "Schedule" + name)
    schedule = kind(stages[0] if one else stages, n_microbatches=2 * size, loss_fn=loss_of)
    losses, last = [], rank == size - 1
    named = {"target": target, "losses": losses} if last else {}
    schedule.step(*[batch] if rank == 0 else [], **named)
    parts = [stage_of(each) for each in range(count)]
    expected = loss_of(torch.nn.Sequential(*parts)(batch), target)
    expected.backward()
    if last:
        assert torch.allclose(torch.stack(losses).mean(), expected)
    for stage in stages:
        wanted = parts[stage.stage_index].parameters()
        for ours, theirs in zip(stage.submod.parameters(), wanted):
            scales = 1, 2 * size  # torch 2.6 divides by the number of batches in the last two alone
            assert any(torch.allclose(ours.grad, theirs.grad * each, atol=1e-5) for each in scales)
    dist.barrier()
