"""What callers of torch.distributed state of sizes, types and splits, and the forms of its calls.
The backend gloo, in the same job, says what is right where it knows the call."""
import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402

pytestmark = pytest.mark.usefixtures("group")

INT, WRONG = torch.int32, "refused"


@pytest.fixture(scope="module")
def groups(group):
    """The group of hvd, and one of gloo."""
    return dist.distributed_c10d._get_default_group(), dist.new_group(backend="gloo")


def zeros(*sizes, dtype=torch.float32):
    return [torch.zeros(size, dtype=dtype) for size in sizes]


def values(tensors):
    return [each.tolist() for each in tensors]


def attempt(function, *arguments):
    """The result of a call, or that it was refused, and that nothing was written then."""
    try:
        return function(*arguments)
    except (RuntimeError, ValueError):  # later torch versions raise the latter for some
        return WRONG


# ---- Sizes and types ----------------------------------------------------------------------------


def gather_lists(outputs, mine):
    def call(group):
        dist.all_gather(outputs, mine, group=group)
        return values(outputs)

    return call


def gather_by_method(outputs, mine):
    def call(group):
        group.allgather([outputs], [mine]).wait()
        return values(outputs)

    return call


@pytest.mark.parametrize("method", [gather_lists, gather_by_method])
@pytest.mark.parametrize(
    "shape, dtype, sent",
    [((2,), None, (2,)), ((3,), None, (2,)), ((2, 2), None, (4,)), ((4,), None, (2, 2)),
     ((2,), INT, (2,)), ((1,), None, (2,))],
)  # fmt: skip
def test_all_gather_as_gloo(groups, rank, size, method, shape, dtype, sent):
    found = []
    for group in groups:
        outputs = zeros(*[shape] * size, dtype=dtype or torch.float32)
        found.append(attempt(method(outputs, torch.full(sent, rank + 1.0)), group))
        assert found[-1] != WRONG or not any(each.any() for each in outputs)
    assert found[0] == found[1]
    assert (found[0] == WRONG) == (shape != sent or dtype is not None)


def wrong(call, match="elements|shape", error=hvd.InvalidError):
    with pytest.raises(error, match=match):
        call()


def untouched(*tensors):
    return not any(each.any() for each in tensors)


def test_uneven_lists(rank, size):
    """Rank r sends r + 1 elements."""
    mine, outputs = torch.full((rank + 1,), float(rank)), zeros(*range(1, size + 1))
    dist.all_gather(outputs, mine)
    assert values(outputs) == [[float(each)] * (each + 1) for each in range(size)]
    into = zeros(*range(1, size + 1)) if rank == 0 else None
    dist.gather(mine, into, dst=0)
    assert rank or values(into) == values(outputs)
    share = torch.zeros(rank + 1)
    dist.scatter(share, outputs if rank == size - 1 else None, src=size - 1)
    assert share.tolist() == mine.tolist()
    if size > 2:  # the sizes of two others are exchanged, which their sum does not show
        outputs = zeros(1, *range(2, size + 1))
        if rank == 0:
            outputs[1], outputs[2] = zeros(3, 2)
            wrong(lambda: dist.all_gather(outputs, mine), "member 1 sent 2 .* holds 3")
            assert untouched(*outputs)
        else:
            dist.all_gather(outputs, mine)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8])
@pytest.mark.parametrize("op", ["SUM", "AVG", "MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR"])
def test_reduce_scatter_of_uneven_lists_is_that_of_even_ones(rank, size, op, dtype):
    if not hasattr(dist.ReduceOp, op):
        pytest.skip("torch has no such reduction")
    if op.startswith("B") and dtype.is_floating_point:
        pytest.skip("its bits are no number")
    reduction = getattr(dist.ReduceOp, op)
    rows = torch.arange(size * size).view(size, size) % 7 + rank + 1
    even, uneven = torch.zeros(size, dtype=dtype), torch.zeros(rank + 1, dtype=dtype)
    dist.reduce_scatter(even, list(rows.to(dtype)), op=reduction)
    shorter = [row[: i + 1].clone() for i, row in enumerate(rows.to(dtype))]
    dist.reduce_scatter(uneven, shorter, op=reduction)
    assert uneven.tolist() == even[: rank + 1].tolist()


def test_what_one_rank_states_wrongly_is_an_error_on_all(rank, size):
    """They would wait for it for ever. What follows finds all ranks together again."""
    if size == 1:
        pytest.skip("there are no others")
    one = torch.ones(2)
    for call in (
        lambda bad: dist.all_gather(zeros(*[(3,) if bad else (2,)] * size), one),
        lambda bad: dist.all_gather(zeros(*[(2,)] * (size + bad)), one),
        lambda bad: dist.all_gather_into_tensor(torch.zeros(2 * size + bad), one),
        lambda bad: dist.all_gather_into_tensor(zeros(2 * size, dtype=bad and INT or None)[0], one),
        lambda bad: dist.reduce_scatter(torch.zeros(2 + bad), [one] * size),
        lambda bad: dist.reduce_scatter_tensor(one, torch.zeros(2 * size + bad)),
        lambda bad: dist.all_to_all_single(torch.zeros(2 * size + bad), torch.ones(2 * size)),
        lambda bad: dist.all_to_all(zeros(*[(2,)] * (size + bad)), [one] * size),
        lambda bad: dist.scatter(
            torch.zeros(1, 4),
            [torch.ones(2, 2) if bad else torch.ones(1, 4)] * size if rank == 0 else None,
        ),
        lambda bad: dist.all_reduce_coalesced([one] if not bad else [one.to_sparse()]),
    ):
        if rank == 0:
            wrong(lambda: call(True), "")
        else:
            wrong(lambda: call(False), "rank 0 .* has ", hvd.MismatchError)
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == size


def test_what_ranks_state_differently_is_an_error_on_all(rank, size):
    if size == 1:
        pytest.skip("there are no others")
    longer = 3 if rank == 0 else 2
    mine = torch.ones(longer)
    longest = zeros(*range(2, size + 2)) if rank == 0 else zeros(*range(1, size + 1))
    turned = zeros(*range(size, 0, -1)) if rank == 0 else zeros(*range(1, size + 1))
    for call in (
        lambda: dist.all_gather(zeros(*[(longer,)] * size), mine),
        lambda: dist.all_gather_into_tensor(torch.zeros(longer * size), mine),
        lambda: dist.reduce_scatter(torch.zeros(longer), [mine] * size),
        lambda: dist.reduce_scatter_tensor(torch.zeros(longer), torch.ones(longer * size)),
        lambda: dist.reduce_scatter(torch.zeros(len(longest[rank])), longest),
        lambda: dist.reduce_scatter(torch.zeros(len(turned[rank])), turned),
        lambda: dist.all_gather(zeros(*range(1, size + 1)) if rank == 0 else zeros(*[(2,)] * size),
                                torch.ones(1 if rank == 0 else 2)),
    ):  # fmt: skip
        wrong(call, "give all ranks the same", hvd.MismatchError)


def test_what_arrives_is_held_against_what_was_stated(rank, size):
    """Other ranks have no fault in it, and get their results."""
    if size == 1:
        pytest.skip("there are no others")
    last = size - 1
    share = torch.zeros(2 + (rank == last))
    call = lambda: dist.scatter(share, [torch.ones(2)] * size if rank == 0 else None, src=0)
    wrong(call, "member 0 sent 2 .* holds 3") if rank == last else call()
    assert rank < last or untouched(share)
    into = zeros(*[(2,)] * last, (3,)) if rank == 0 else None
    call = lambda: dist.gather(torch.ones(2), into, dst=0)
    wrong(call, "member %d sent 2 .* holds 3" % last) if rank == 0 else call()
    assert rank or untouched(*into)
    outputs = zeros(*[(2 + (rank == 0 and each == last),) for each in range(size)])
    call = lambda: dist.all_to_all(outputs, [torch.ones(2)] * size)
    wrong(call, "member %d sent 2 .* holds 3" % last) if rank == 0 else call()
    assert untouched(*outputs) == (rank == 0)
    splits = [1] * size
    if rank == 0:
        splits[0], splits[last] = 0, 2
    output = torch.zeros(size, 3)
    call = lambda: dist.all_to_all_single(output, torch.ones(size, 3), splits, [1] * size)
    wrong(call, "member 0 sent 3 .* holds 0") if rank == 0 else call()
    assert untouched(output) == (rank == 0)


def test_sizes_types_and_splits_of_one_tensor(groups, rank, size):
    """All ranks make the same mistake."""
    ours = groups[0]
    two, halves = torch.full((2,), 0.75), torch.full((2 * size,), 0.75)
    ints, options = torch.zeros(2 * size, dtype=INT), dist.ReduceScatterOptions()
    for call in (
        lambda: dist.all_gather_into_tensor(ints, two),
        lambda: dist.all_gather_into_tensor(torch.zeros(2 * size + 1), two),
        lambda: dist.reduce_scatter_tensor(ints[:2], halves),
        lambda: dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(2 * size + 1)),
        lambda: ours.allgather_into_tensor_coalesced([torch.zeros(2 * size), ints], [two, two]),
        lambda: ours.allgather_into_tensor_coalesced([torch.zeros(2 * size)], [two, two]),
        lambda: ours.reduce_scatter_tensor_coalesced([ints[:2]], [halves], options),
        lambda: ours.allgather_coalesced([[torch.zeros(2), ints[:2]]] * size, [two, two]),
        lambda: ours.allgather_coalesced([[torch.zeros(2), ints[:1]]] * size, [two, ints[:2]]),
        lambda: ours.scatter([ints[:2]], [[two] * size] if rank == 0 else []),
        lambda: ours.gather([zeros(*[(2,)] * size)] if rank == 0 else [], [ints[:1]]),
        lambda: ours.reduce_scatter([ints[:2]], [[two] * size]),
        lambda: ours.alltoall(list(ints.chunk(size)), [two] * size),
        lambda: ours.alltoall_base(ints, halves, [], []),
        lambda: ours.reduce_scatter(two, [two] * (size - 1) + [two.double()]),
        lambda: ours.gather([zeros(*[(2,)] * (size + (rank == 0)))], two, 0),
    ):
        with pytest.raises((hvd.InvalidError, hvd.MismatchError)):
            work = call()
            if work is not None:
                work.wait()
    assert not ints.any()
    for splits in ([1] * size, [2] * (size - 1) + [3], [2] * (size + 1), [-1] + [2] * (size - 1)):
        if splits != [2] * size:
            for outputs, inputs in ((splits, [2] * size), ([2] * size, splits)):
                output = torch.zeros(2 * size)
                wrong(lambda: dist.all_to_all_single(output, halves, outputs, inputs), "splits")
    for shape in ((0,), (size, 0)):  # no elements are no fault
        dist.all_to_all_single(torch.zeros(shape), torch.zeros(shape))
        dist.all_gather(zeros(*[shape] * size), torch.zeros(shape))
        dist.reduce_scatter(torch.zeros(shape), zeros(*[shape] * size))


# ---- Short forms --------------------------------------------------------------------------------


def form(number, group, rank, size):
    """The results of the methods in the forms that torch's stubs list."""

    def mine(*shape):
        return torch.full(shape, rank + 1.0)

    def done(work, *tensors):
        work.wait()
        return values(tensors)

    x, out, outs = mine(3), torch.zeros(2), zeros(*[(2,)] * size)
    parts, top = [mine(2) for _ in range(size)], dist.ReduceOp.MAX
    is_root = rank == 0
    forms = [
        lambda: done(group.allreduce(x), x),
        lambda: done(group.allreduce(x, top), x),
        lambda: done(group.allreduce(tensor=x, op=top), x),
        lambda: done(group.allreduce([x], top), x),
        lambda: done(group.allreduce([x], dist.AllreduceOptions()), x),
        lambda: done(group.allreduce(x.view(3, 1)), x),
        lambda: done(group.allreduce(x[0]), x),
        lambda: done(group.allreduce_coalesced([x, out]), x, out),
        lambda: done(group.broadcast(x, size - 1), x),
        lambda: done(group.broadcast([x]), x),
        lambda: done(group.broadcast(tensors=[x], opts=dist.BroadcastOptions()), x),
        lambda: done(group.reduce(x, 0), x)[: is_root],
        lambda: done(group.reduce(x, 0, top), x)[: is_root],
        lambda: done(group.reduce(tensor=x, root=0, op=top), x)[: is_root],
        lambda: done(group.reduce([x]), x)[: is_root],
        lambda: done(group.allgather(outs, mine(2)), *outs),
        lambda: done(group.allgather([outs], [mine(2)]), *outs),
        lambda: done(group.gather(outs if is_root else [], mine(2), 0), *outs),
        lambda: done(group.gather([outs] if is_root else [], [mine(2)]), *outs),
        lambda: done(group.scatter(out, parts if is_root else [], 0), out),
        lambda: done(group.scatter([out], [parts] if is_root else []), out),
        lambda: done(group.reduce_scatter(out, parts), out),
        lambda: done(group.reduce_scatter(out, parts, top), out),
        lambda: done(group.reduce_scatter([out], [parts]), out),
        lambda: done(group.alltoall_base(out, x[:2].clone(), [], []), out),
        lambda: done(group.alltoall(outs, parts), *outs),
        lambda: done(group._allgather_base(torch.zeros(size * 2), mine(2))),
        lambda: done(group._reduce_scatter_base(out, mine(2 * size)), out),
        lambda: done(group.barrier()),
        lambda: done(group.barrier(dist.BarrierOptions())),
    ]
    return forms[number]() if number < len(forms) else None


@pytest.mark.parametrize("number", range(30))
def test_short_forms_as_gloo(groups, rank, size, number):
    if number == 24 and size > 2:
        pytest.skip("two elements are for two ranks")
    ours = form(number, groups[0], rank, size)
    assert ours is not None
    if number in (17, 19):  # gloo asks for another form on the other ranks
        return
    theirs = attempt(form, number, groups[1], rank, size)
    if theirs == WRONG:  # gloo has no such call
        return
    assert ours == theirs


def test_one_tensor_for_each_rank(rank):
    """gloo would add the tensors of a list to each other."""
    group = dist.distributed_c10d._get_default_group()
    for call in (group.allreduce, group.broadcast, group.reduce):
        wrong(lambda: call([torch.ones(1), torch.ones(1)]), "the list has 2 tensors; expected one")
        wrong(lambda: call([]), "the list has 0 tensors; expected one")
