"""hvd.torch: Horovod's calls, gradients by differences, and optimizers against one on the whole
batch."""
import copy
import inspect

import pytest

torch = pytest.importorskip("torch")

import hvd as engine  # noqa: E402
import hvd.torch as hvd  # noqa: E402

SETTINGS = [
    {},
    {"gradients_in_window": False},
    {"groups": 2},
    {"backward_passes_per_step": 2},
    {"gradient_predivide_factor": 2.0},
    {"compression": hvd.Compression.fp16},
    {"compression": hvd.Compression.bf16, "gradients_in_window": False},
]


def make_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)
    )


def make_data(size, count=4):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(count * size, 6, generator=generator)


# ---- Calls --------------------------------------------------------------------------------------


def test_signatures():
    def names(function):
        return list(inspect.signature(function).parameters)

    factors = ["prescale_factor", "postscale_factor", "process_set"]
    assert names(hvd.allreduce) == ["tensor", "average", "name", "compression", "op"] + factors
    assert names(hvd.allreduce_async_) == ["tensor", "average", "name", "op"] + factors
    assert names(hvd.grouped_allreduce)[0] == "tensors"
    assert names(hvd.allgather) == ["tensor", "name", "process_set"]
    assert names(hvd.broadcast_) == ["tensor", "root_rank", "name", "process_set"]
    assert names(hvd.alltoall) == ["tensor", "splits", "name", "process_set"]
    assert names(hvd.DistributedOptimizer)[:10] == [
        "optimizer", "named_parameters", "compression", "backward_passes_per_step", "op",
        "gradient_predivide_factor", "num_groups", "groups", "sparse_as_dense", "process_set",
    ]  # fmt: skip
    assert bool(hvd.nccl_built()) == hvd.cuda_built()
    assert not hvd.mpi_built() and hvd.mpi_threads_supported()


TYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("name", TYPES)
def test_types(rank, size, name):
    dtype = getattr(torch, name)
    mine = torch.full((3, 2), rank + 1).to(dtype)
    total = size * (size + 1) // 2
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), torch.full((3, 2), total).to(dtype))
    assert hvd.allgather(mine).dtype == dtype
    assert torch.equal(hvd.broadcast(mine, size - 1), torch.full((3, 2), size).to(dtype))
    kept = mine.clone()
    assert hvd.allreduce_(kept, op=hvd.Max) is kept and float(kept[0, 0]) == size


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_float8(rank, size, name):
    if not hasattr(torch, name):
        pytest.skip("torch %s has no %s, which came with 2.1" % (torch.__version__, name))
    dtype = getattr(torch, name)
    mine = torch.full((3, 2), float(rank + 1)).to(dtype)
    total = hvd.allreduce(mine, op=hvd.Sum)
    assert total.dtype == dtype and float(total.float()[0, 0]) == size * (size + 1) // 2
    assert float(hvd.broadcast(mine, size - 1).float()[0, 0]) == size
    gathered = hvd.allgather(mine)
    assert gathered.dtype == dtype and gathered.shape == (3 * size, 2)


def test_bool_and_others(rank, size):
    assert bool(hvd.allreduce(torch.tensor(rank == 0), op=hvd.Max))
    with pytest.raises(ValueError, match="complex64"):
        hvd.allreduce(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="sparse_allreduce_async"):
        hvd.allreduce(torch.eye(3).to_sparse())
    with pytest.raises(ValueError, match="torch.Tensor"):
        hvd.allreduce([1.0])
    with pytest.raises(ValueError, match="supersedes average"):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)
    with pytest.warns(DeprecationWarning):
        assert float(hvd.allreduce(torch.ones(()), average=False)) == size


def test_layouts(rank, size):
    base = torch.arange(12.0).reshape(3, 4) + rank
    total = torch.arange(12.0).reshape(3, 4) * size + sum(range(size))
    assert torch.equal(hvd.allreduce(base.t(), op=hvd.Sum), total.t())
    part = base[:, ::2]
    hvd.allreduce_(part, op=hvd.Sum)
    assert torch.equal(base[:, ::2], total[:, ::2]) and float(base[0, 1]) == 1 + rank
    assert hvd.allreduce(torch.zeros(0, 3)).shape == (0, 3)


def test_turned_in_place(rank, size):
    """A tensor that comes back under its name at the same address, but turned on some ranks."""
    mine = torch.arange(4.0).reshape(2, 2)
    for step in range(3):
        mine.copy_(torch.arange(4.0).reshape(2, 2))
        if step == 2 and rank == 0:
            mine.t_()
        expected = torch.arange(4.0).reshape(2, 2) * size
        if step == 2:
            expected = expected - torch.arange(4.0).reshape(2, 2)
            expected += torch.arange(4.0).reshape(2, 2).t()
        assert torch.equal(hvd.allreduce_(mine, name="turned", op=hvd.Sum), expected)


def test_averages_and_factors(rank, size):
    mine = torch.full((5,), float(rank))
    assert torch.allclose(hvd.allreduce(mine), torch.full((5,), sum(range(size)) / size))
    assert torch.allclose(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=2, postscale_factor=3),
                          torch.full((5,), 6.0 * sum(range(size))))  # fmt: skip
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        packed = hvd.allreduce(mine.double(), op=hvd.Sum, compression=compression)
        assert packed.dtype == torch.float64 and float(packed[0]) == sum(range(size))


def test_groups_and_alltoall(rank, size):
    one, two = hvd.grouped_allreduce([torch.ones(3), torch.ones(2, 2)], op=hvd.Sum)
    assert float(one[0]) == size and two.shape == (2, 2)
    tensors = [torch.ones(3), torch.ones(2)]
    hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    assert float(tensors[1][0]) == size
    splits = torch.tensor([rank + 1] * size, dtype=torch.int32)
    rows, counts = hvd.alltoall(torch.full((size * (rank + 1),), rank), splits)
    assert counts.tolist() == [each + 1 for each in range(size)]
    assert rows.tolist() == [each for each in range(size) for _ in range(each + 1)]
    assert hvd.synchronize(hvd.alltoall_async(torch.arange(size))).tolist() == [rank] * size
    shares = hvd.grouped_reducescatter([torch.ones(size), torch.ones(2 * size, 2)], op=hvd.Sum)
    assert shares[1].shape == (2, 2) and float(shares[0]) == size
    gathered = hvd.grouped_allgather([torch.full((rank + 1,), rank), torch.zeros(1, 2)])
    assert gathered[0].tolist() == [each for each in range(size) for _ in range(each + 1)]


def test_handles(rank, size):
    handle = hvd.allreduce_async(torch.ones(4), name="h", op=hvd.Sum)
    result = hvd.synchronize(handle)
    assert hvd.poll(handle) and float(result[0]) == size
    hvd.barrier()
    assert hvd.join() in range(size)


def test_sparse(rank, size):
    mine = torch.sparse_coo_tensor([[0, rank]], [1.0, 2.0], (size + 1,))
    handle = hvd.sparse_allreduce_async(mine, name="sparse", op=hvd.Sum)
    expected = torch.zeros(size + 1)
    for each in range(size):
        expected[0] += 1.0
        expected[each] += 2.0
    assert torch.equal(hvd.synchronize(handle).to_dense(), expected)


@pytest.mark.parametrize("sparse", [1, 2])
def test_sparse_where_one_rank_has_nothing(rank, size, sparse):
    whole = torch.zeros(4, 3)
    whole[rank] = rank
    mine = whole.to_sparse(sparse)
    if rank == 0:
        mine = mine.zero_()
    result = hvd.synchronize(hvd.sparse_allreduce_async(mine, "nothing%d" % sparse, hvd.Sum))
    expected = torch.zeros(4, 3)
    for each in range(size):
        expected[each] = each
    assert torch.equal(result.to_dense(), expected)
    assert size == 1 or result.sparse_dim() == sparse


def test_sparse_dimensions_must_agree(rank, size):
    mine = torch.ones(2, 2).to_sparse(1 if rank == 0 else 2)
    handle = hvd.sparse_allreduce_async(mine, "dimensions", hvd.Sum)
    if size == 1:
        assert torch.equal(handle().to_dense(), torch.ones(2, 2))
        return
    with pytest.raises(ValueError, match="have 1 and 2 sparse dimensions; expected the same"):
        handle()


# ---- Gradients ----------------------------------------------------------------------------------


def numeric_gradient(function, mine, rank, losses):
    """The change of losses(all ranks' losses) with each element of this rank's tensor, by
    differences."""
    size, step, found = hvd.size(), 1e-4, None
    for owner in range(size):
        count = hvd.broadcast_object(mine.numel(), owner)
        gradient = torch.zeros(count, dtype=mine.dtype)
        for i in range(count):
            sides = []
            for sign in (1, -1):
                moved = mine.clone()
                if owner == rank:
                    moved.view(-1)[i] += sign * step
                own = function(moved).detach().reshape(1)
                sides.append(losses(hvd.allgather(own)))
            gradient[i] = (sides[0] - sides[1]) / (2 * step)
        if owner == rank:
            found = gradient.view(mine.shape)
    return found


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.parametrize(
    "kind", ["allreduce", "allgather", "broadcast", "alltoall", "reducescatter"]
)
def test_gradients(rank, size, kind, op):
    torch.manual_seed(rank)
    mine = torch.randn(2 * size, dtype=torch.float64, requires_grad=True)
    weights = torch.linspace(1, 2, 2 * size * size, dtype=torch.float64) * (rank + 1)
    calls = {
        "allreduce": lambda x: hvd.allreduce(x, op=op, prescale_factor=0.5),
        "allgather": hvd.allgather,
        "broadcast": lambda x: hvd.broadcast(x, size - 1),
        "alltoall": hvd.alltoall,
        "reducescatter": lambda x: hvd.reducescatter(x, op=op),
    }

    def function(x):
        result = calls[kind](x)
        return (result * result * weights[: result.numel()]).sum()

    function(mine).backward()
    # as in Horovod: of the sum of losses, or where rows are distributed of their average
    by_average = kind in ("allgather", "broadcast")
    expected = numeric_gradient(
        function, mine.detach(), rank, torch.mean if by_average else torch.sum
    )
    if kind == "reducescatter":
        expected = expected * size
    assert torch.allclose(mine.grad, expected, rtol=1e-5, atol=1e-7)


def test_gradients_of_groups(rank, size):
    """Those of each tensor alone, also where rows are uneven or do not divide."""
    torch.manual_seed(rank)
    shapes = [(rank + 1, 2), (2 * size + 1,)]
    calls = {
        "allgather": lambda x: hvd.allgather(x),
        "reducescatter": lambda x: hvd.reducescatter(x, op=hvd.Sum),
        "allreduce": lambda x: hvd.allreduce(x, op=hvd.Sum),
    }
    groups = {
        "allgather": lambda xs: hvd.grouped_allgather(xs),
        "reducescatter": lambda xs: hvd.grouped_reducescatter(xs, op=hvd.Sum),
        "allreduce": lambda xs: hvd.grouped_allreduce(xs, op=hvd.Sum),
    }
    for kind, group in groups.items():
        own = shapes if kind == "allgather" else [(2 * size + 1, 2), (3,)]
        together = [torch.randn(shape, requires_grad=True) for shape in own]
        alone = [each.detach().clone().requires_grad_() for each in together]
        for results in (group(together), [calls[kind](each) for each in alone]):
            sum((each**2).sum() * (i + 2) for i, each in enumerate(results)).backward()
        for one, other in zip(together, alone):
            assert torch.allclose(one.grad, other.grad)


def test_sync_batch_norm(rank, size):
    data = make_data(size)[:, :3].double()
    plain, ours = torch.nn.BatchNorm1d(3).double(), hvd.SyncBatchNorm(3).double()
    whole = data.clone().requires_grad_()
    mine = data[rank * 4 : rank * 4 + 4].clone().requires_grad_()
    result, expected = ours(mine), plain(whole)
    assert torch.allclose(result, expected[rank * 4 : rank * 4 + 4])
    assert torch.allclose(ours.running_var, plain.running_var)
    (result**3).sum().backward()
    (expected**3).sum().backward()
    assert torch.allclose(mine.grad, whole.grad[rank * 4 : rank * 4 + 4])
    weight = hvd.allreduce(ours.weight.grad, op=hvd.Sum)
    assert torch.allclose(weight, plain.weight.grad)
    ours.eval()
    assert ours(mine).shape == mine.shape


# ---- The optimizer ------------------------------------------------------------------------------


def train_plain(data, steps, make):
    model = make_model()
    optimizer = make(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).pow(2).mean().backward()
        optimizer.step()
    return model


def train_ours(data, steps, make, settings, set_to_none=True):
    model = make_model()
    settings = dict(settings)
    passes = settings.get("backward_passes_per_step", 1)
    optimizer = hvd.DistributedOptimizer(
        make(model.parameters()), named_parameters=model.named_parameters(), **settings
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        if step % 3 == 2:
            model.zero_grad(set_to_none=True)
        for part in data.chunk(passes):
            (model(part).pow(2).mean() / passes).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_optimizer_is_that_of_the_whole_batch(rank, size, settings, set_to_none):
    data = make_data(size)

    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    expected = train_plain(data, 6, make)
    ours = train_ours(data[rank * 4 : rank * 4 + 4], 6, make, settings, set_to_none)
    slack = 2e-2 if "compression" in settings else 1e-5
    for found, wanted in zip(ours.parameters(), expected.parameters()):
        assert torch.allclose(found, wanted, atol=slack)


def test_optimizer_details(rank, size):
    model = make_model()
    names = list(model.named_parameters())
    plain = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=names)
    assert isinstance(optimizer, torch.optim.Adam)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model(make_data(1)).sum().backward()
    if size > 1:
        with pytest.raises(AssertionError, match="race condition"):
            optimizer.zero_grad()
        with pytest.raises(AssertionError, match="backward_passes_per_step"):
            model(make_data(1)).sum().backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    with optimizer.skip_synchronize():
        optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.005
    with pytest.raises(ValueError, match="unique"):
        hvd.DistributedOptimizer(plain, named_parameters=names + names[:1])
    with pytest.raises(ValueError, match="not named"):
        hvd.DistributedOptimizer(plain, named_parameters=names[1:])
    with pytest.raises(ValueError, match="predivide"):
        hvd.DistributedOptimizer(plain, names, op=hvd.Sum, gradient_predivide_factor=2.0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    copy.deepcopy(optimizer.state_dict())


def test_step_with_closure(rank, size):
    """What the closure computes is reduced, whether it is called once or several times."""
    data = make_data(size)
    for make in (
        lambda each: torch.optim.SGD(each, lr=0.1),
        lambda each: torch.optim.LBFGS(each, lr=0.1, max_iter=3),
    ):
        models = [make_model(), make_model()]
        plain, ours = [make(each.parameters()) for each in models]
        ours = hvd.DistributedOptimizer(ours, models[1].named_parameters())
        batches = data, data[rank * 4 : rank * 4 + 4]
        for model, optimizer, batch in zip(models, (plain, ours), batches):

            def closure():
                optimizer.zero_grad()
                loss = model(batch).pow(2).mean()
                loss.backward()
                return hvd.allreduce(loss.detach()) if optimizer is ours else loss

            for _ in range(3):
                optimizer.step(closure)
        for found, wanted in zip(models[1].parameters(), models[0].parameters()):
            assert torch.allclose(found, wanted, atol=1e-4)


def test_parameters_that_come_later(rank, size):
    """Those of a new group, and frozen ones that are trained from some step on, are reduced too."""
    model = make_model()
    model[0].requires_grad_(False)
    later = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.5), model.named_parameters()
    )

    def step():
        ((model(torch.ones(1, 6)) + later.sum()) * (rank + 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        everything = torch.cat([each.detach().reshape(-1) for each in [*model.parameters(), later]])
        assert all(torch.equal(each, everything) for each in hvd.allgather_object(everything))

    step()
    optimizer.add_param_group({"params": [later]})
    step()
    assert float(later[0]) == -sum(each + 1 for each in range(size)) / size * 2
    model[0].requires_grad_(True)
    before = model[0].bias.detach().clone()
    step()
    assert not torch.equal(before, model[0].bias)
    model[0].requires_grad_(False)  # torch leaves it as it is, also where weights decay
    before = model[0].bias.detach().clone()
    step()
    assert torch.equal(before, model[0].bias)


def test_hooks_around_a_step(rank, size):
    """torch calls what users hook to a step once, also after load_state_dict."""
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters()
    )
    before = type(optimizer).step
    optimizer.load_state_dict(optimizer.state_dict())
    assert type(optimizer).step is before
    if hasattr(optimizer, "register_step_post_hook"):  # since torch 2.0
        calls = []
        optimizer.register_step_post_hook(lambda *_: calls.append(1))
        optimizer.step()
        assert calls == [1]


def test_wrapped_again(rank, size):
    """As in a notebook whose cell runs again: an optimizer that is dropped reduces nothing more."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(3):
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Sum)
        before = model[3].bias.detach().clone()
        model(make_data(1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert torch.allclose(before - model[3].bias, torch.tensor(4.0 * size))


def test_gradients_are_in_the_window(rank, size):
    if size == 1:
        pytest.skip("one rank reduces nothing")
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    first = None
    for step in range(4):
        model(make_data(1)).sum().backward()
        if step == 2:  # somebody swaps a gradient
            model[0].weight.grad = torch.ones_like(model[0].weight)
        optimizer.step()
        places = [each.grad.data_ptr() for each in model.parameters()]
        first = first or places
        if step != 2:
            assert places == first
        optimizer.zero_grad(set_to_none=step % 2 == 0)


def test_two_optimizers(rank, size):
    """Of different names they work at the same time; of the same, the error says what to do."""
    models = [make_model(), make_model()]

    def wrap(prefixes):
        return [
            hvd.DistributedOptimizer(
                torch.optim.SGD(each.parameters(), lr=0.1), each.named_parameters(prefix)
            )
            for each, prefix in zip(models, prefixes)
        ]

    optimizers = wrap("ab")
    for each in models:
        each(make_data(1)).sum().backward()
    for each in optimizers:
        each.step()
    if size == 1:
        return
    optimizers = wrap("aa")
    if rank == 0:  # the others have not submitted, so these stay in flight
        models[0](make_data(1)).sum().backward()
        with pytest.raises(hvd.HvdError, match=r"still in flight .*named_parameters\(prefix="):
            models[1](make_data(1)).sum().backward()
    hvd.barrier()
    if rank:
        models[0](make_data(1)).sum().backward()
    optimizers[0].step()


def test_unused_parameters(rank, size):
    """Backward does not reach a parameter on some ranks: they send zeros."""
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), op=hvd.Sum
    )
    before = model[3].bias.detach().clone()
    (model(make_data(1)) if rank == 0 else model[:3](make_data(1))).sum().backward()
    optimizer.step()
    assert torch.allclose(before - model[3].bias, torch.tensor(4.0))


@pytest.mark.parametrize("dense", [False, True])
def test_sparse_gradients(rank, size, dense):
    table = torch.nn.Embedding(10, 3, sparse=True)
    torch.nn.init.zeros_(table.weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), sparse_as_dense=dense
    )
    for _ in range(2):
        table(torch.tensor([rank, 9])).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.allclose(table.weight[9], torch.tensor(-2.0))
    assert torch.allclose(table.weight[rank], torch.tensor(-2.0 / size))


@pytest.mark.parametrize("set_to_none", [False, True])
def test_sparse_gradients_that_one_rank_does_not_have(rank, size, set_to_none):
    table = torch.nn.Embedding(10, 3, sparse=True)
    torch.nn.init.zeros_(table.weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), op=hvd.Sum
    )
    for step in range(4):
        if step == 0 or rank == 0:
            table(torch.tensor([9])).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
    assert torch.allclose(table.weight[9], torch.tensor(-(size + 3.0)))


def test_adasum_optimizer(rank, size):
    if size & (size - 1):
        pytest.skip("Adasum needs a power of two")
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), op=hvd.Adasum
    )
    expected = train_plain(make_data(1), 1, lambda p: torch.optim.SGD(p, lr=0.1))
    model(make_data(1)).pow(2).mean().backward()
    optimizer.step()  # equal changes stay what they are
    for found, wanted in zip(model.parameters(), expected.parameters()):
        assert torch.allclose(found, wanted, atol=1e-6)


def test_optimizer_in_a_set(rank, size, evens):
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), process_set=evens
    )
    before = model[3].bias.detach().clone()
    (model(make_data(1)) * (rank + 1)).sum().backward()
    optimizer.step()
    members = evens.ranks if evens.included() else [rank]
    mean = sum(each + 1 for each in members) / len(members)
    assert torch.allclose(before - model[3].bias, torch.tensor(4.0 * mean))


def test_state_to_all(rank, size):
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1), betas=(0.5, 0.1 * rank))
    if rank == 0:
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_parameters(list(model.parameters()), root_rank=0)
    with pytest.raises(ValueError, match="'epoch' is of type int, not a tensor; send it by"):
        hvd.broadcast_parameters({"epoch": 3}, root_rank=0)
    with pytest.raises(ValueError, match="synchronize: 12345 is no handle"):
        hvd.synchronize(12345)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    states = hvd.allgather_object((model.state_dict(), optimizer.state_dict()))
    for module, state in states:
        assert all(torch.equal(module[key], value) for key, value in states[0][0].items())
        assert state["param_groups"] == states[0][1]["param_groups"]
        assert torch.equal(state["state"][0]["exp_avg"], states[0][1]["state"][0]["exp_avg"])
    with pytest.raises(ValueError, match="invalid params"):
        hvd.broadcast_parameters("weights", 0)


def test_alloc_tensor(rank, size):
    shared = hvd.alloc((3, 2), torch.float64)
    shared.fill_(rank)
    assert hvd.allreduce_(shared, op=hvd.Sum) is shared
    assert float(shared[2, 1]) == sum(range(size))
    assert engine.alloc_tensor((0, 4)).shape == (0, 4)
    assert hvd.alloc(2, device="cpu").tolist() == [0, 0]
    with pytest.raises(ValueError, match="memory on meta: expected the host or a GPU"):
        hvd.alloc(2, device="meta")
