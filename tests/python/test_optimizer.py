"""DistributedOptimizer and what programs do around it: each gradient is reduced as it is when
backward has computed it, and the optimizer behaves like the one that was wrapped."""
import contextlib
import copy
import inspect
import io
import os
import pickle
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

import hvd.errors as errors  # noqa: E402
import hvd.torch as hvd  # noqa: E402


# A whole optimizer is more than tensors; since torch 2.6 that has to be said.
SAID = "weights_only" in inspect.signature(torch.load).parameters
WHOLE = {"weights_only": False} if SAID else {}


def mean(size):
    """Of rank + 1 over the ranks."""
    return (size + 1) / 2


def wrap(*parameters, make=torch.optim.SGD, lr=1.0, **settings):
    named = [("p%d" % i, each) for i, each in enumerate(parameters)]
    return hvd.DistributedOptimizer(make(list(parameters), lr=lr), named, **settings)


def same_everywhere(tensors):
    flat = torch.cat([each.detach().reshape(-1).double() for each in tensors])
    return all(torch.equal(each, flat) for each in hvd.allgather_object(flat))


# ---- Where gradients are ------------------------------------------------------------------------


def replace_data(grad):
    grad.data = grad.data.clone()


def set_other(grad):
    grad.set_(grad.clone())


def share(grad):
    grad.share_memory_()


def turn(grad):
    grad.data = grad.data.t().contiguous().t()


def swap_dtype_and_back(grad):
    grad.data = grad.data.double()
    grad.data = grad.data.float()


CHANGES = [replace_data, set_other, share, turn, swap_dtype_and_back]
SETTINGS = [
    {},
    {"op": hvd.Sum},
    {"backward_passes_per_step": 2},
    {"compression": hvd.Compression.fp16},
    {"groups": 1},
    {"gradients_in_window": False},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_gradients_whose_memory_is_replaced(rank, size, change):
    for number, settings in enumerate(SETTINGS):
        p = torch.nn.Parameter(torch.zeros(2, 3))
        optimizer = wrap(p, **settings)
        passes = settings.get("backward_passes_per_step", 1)
        expected = mean(size) * passes * (size if settings.get("op") == hvd.Sum else 1)
        for step in range(3):
            optimizer.zero_grad(set_to_none=number % 2 == 1)
            for _ in range(passes):
                (p * (rank + 1)).sum().backward()
                if step == 1 and passes == 2 and _ == 0:
                    change(p.grad)
            optimizer.step()
            assert torch.equal(p.grad, torch.full((2, 3), expected)), (settings, step)
            change(p.grad)


def test_gradients_in_memory_of_the_program(rank, size):
    """They are reduced there, so that views of them have the result, too."""
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((3, 2), (4,))]
    for settings in ({}, {"groups": 1}, {"compression": hvd.Compression.bf16}):
        flat = torch.zeros(10)
        parameters[0].grad, parameters[1].grad = flat[:6].view(3, 2), flat[6:]
        optimizer = wrap(*parameters, **settings)
        for _ in range(2):
            flat.zero_()
            (sum(each.sum() for each in parameters) * (rank + 1)).backward()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer.step()
            assert torch.equal(flat, torch.full((10,), mean(size)))
            assert parameters[0].grad.data_ptr() == flat.data_ptr()


KEEPERS = [
    lambda grad: grad,
    lambda grad: grad.detach(),
    lambda grad: grad.view(2, 2),
    lambda grad: grad.numpy(),
]


def test_gradients_that_the_program_keeps(rank, size):
    """Those of an earlier step stay what they were after zero_grad(set_to_none=True)."""
    p = torch.nn.Parameter(torch.zeros(4))
    for keep in KEEPERS:
        optimizer = wrap(p)
        for step in range(3):
            optimizer.zero_grad(set_to_none=True)
            (p * (rank + 1) * 10**step).sum().backward()
            optimizer.synchronize()
            assert float(p.grad[0]) == mean(size) * 10**step
            if step == 0:
                kept = keep(p.grad)
        assert float(kept.reshape(-1)[0]) == mean(size)
        del kept


def test_strange_gradients(rank, size):
    """Transposed on one rank, expanded, negated lazily, and still part of a graph."""
    p = torch.nn.Parameter(torch.zeros(2, 2))
    optimizer = wrap(p)
    values = torch.arange(4.0).reshape(2, 2)
    strange = [
        values.t().contiguous().t() if rank == 0 else values.clone(),
        torch.ones(1).expand(2, 2),
        torch.view_as_complex(torch.stack([values, -values], -1)).conj().imag,
    ]
    for grad, expected in zip(strange, (values, torch.ones(2, 2), values)):
        p.grad = grad
        optimizer.synchronize()
        assert torch.equal(p.grad, expected)
    p.grad = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of create_graph
        ((p**2).sum() + p.sum() * (rank + 1)).backward(create_graph=True)
    optimizer.synchronize()
    assert torch.equal(p.grad.detach(), torch.full((2, 2), mean(size)))
    assert torch.equal(torch.autograd.grad(p.grad.sum(), p)[0], torch.full((2, 2), 2.0))


def test_gradients_that_change_while_they_are_reduced(rank, size):
    """What backward computed counts, and the program is told."""
    if size == 1:
        pytest.skip("one rank reduces nothing")
    p = torch.nn.Parameter(torch.zeros(3))

    def backward():
        optimizer.zero_grad()
        (p * (rank + 1)).sum().backward()

    def finish():
        with pytest.warns(UserWarning, match="'p0' was changed between backward and step"):
            optimizer.synchronize()
        assert torch.equal(p.grad, torch.full((3,), mean(size)))

    for settings in ({}, {"gradients_in_window": False}, {"groups": 1}):
        optimizer = wrap(p, **settings)
        backward()
        p.grad = None
        finish()
        backward()
        p.grad = torch.zeros(3)
        finish()
        backward()
        hvd.barrier()
        p.grad.mul_(1)
        finish()
    optimizer = wrap(p)
    backward()
    p.grad.data = torch.zeros(3)
    optimizer.synchronize()
    assert torch.equal(p.grad, torch.full((3,), mean(size)))


def test_channels_last(rank, size):
    """The window has the parameter's strides, so that torch does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.manual_seed(1)
        model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        for settings in ({}, {"groups": 1}, {"gradients_in_window": False}):
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), lr=0.0), model.named_parameters(), **settings
            )
            data = torch.arange(size * 75.0).reshape(size, 3, 5, 5)
            for step in range(3):
                optimizer.zero_grad(set_to_none=step == 1)
                mine = data[rank : rank + 1].to(memory_format=torch.channels_last)
                model(mine).pow(2).sum().backward()
                optimizer.step()
                found = model.weight.grad.clone(memory_format=torch.contiguous_format)
                assert model.weight.grad.stride() == model.weight.stride()
            del optimizer
            model.zero_grad(set_to_none=True)
            model(data).pow(2).sum().div(size).backward()
            assert torch.allclose(found, model.weight.grad, rtol=1e-4)
            model.zero_grad(set_to_none=True)


def test_other_strides_on_one_rank_are_refused(rank, size):
    if size == 1:
        pytest.skip("one rank reduces nothing")
    p = torch.nn.Parameter(torch.zeros(2, 2))
    if rank == 0:
        p.data = p.data.t().contiguous().t()
    optimizer = wrap(p)
    p.sum().backward()
    with pytest.raises(hvd.HvdError, match="p0"):
        optimizer.step()


def test_half_of_a_model(rank, size):
    """model.half() and model.double() replace the data of parameters and gradients."""
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.0), model.named_parameters()
    )
    for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
        model.to(kind)
        optimizer.zero_grad()
        (model(torch.ones(1, 2, dtype=kind)) * (rank + 1)).sum().backward()
        optimizer.step()
        assert model.weight.grad.dtype == kind
        assert float(model.weight.grad[0, 0]) == mean(size)


# ---- Which parameters ---------------------------------------------------------------------------


def test_only_its_own_parameters(rank, size):
    a, b, c = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    named = [("a", a), ("b", b), ("c", c)]
    for settings in ({}, {"groups": [[a, b]]}, {"op": hvd.Sum}):
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a], 1.0), named, **settings)
        a.grad = b.grad = None
        ((a + b) * (rank + 1)).sum().backward()
        optimizer.step()
        factor = size if "op" in settings else 1
        assert a.grad.tolist() == [mean(size) * factor] * 2
        assert b.grad.tolist() == [rank + 1.0] * 2 and c.grad is None
        assert optimizer._parameter_names[a] == "a"


@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum], ids=["average", "sum"])
def test_optimizers_that_share_parameters(rank, size, op):
    """All of one loss, each given all names: against plain ones on the sum of all ranks."""

    def train(make):
        a, b, shared = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
        named = [("a", a), ("b", b), ("shared", shared)]
        one, two = make([a, shared], named), make([b, shared], named)
        for step in range(3):
            one.zero_grad()
            two.zero_grad(set_to_none=step == 1)
            loss = (a * shared + b * shared * 2).sum()
            (loss * (rank + 1 if make is wrapped else factor)).backward()
            one.step()
            two.step()
        return [a, b, shared]

    def wrapped(own, named):
        return hvd.DistributedOptimizer(torch.optim.SGD(own, lr=0.01), named, op=op)

    def plain(own, named):
        return torch.optim.SGD(own, lr=0.01)

    factor = mean(size) * (size if op == hvd.Sum else 1)
    for found, expected in zip(train(wrapped), train(plain)):
        assert torch.allclose(found, expected, rtol=1e-5)


def test_sharing_with_other_settings_is_refused(rank, size):
    if size == 1:
        pytest.skip("one rank reduces nothing")
    p = torch.nn.Parameter(torch.ones(2))
    one, two = wrap(p), wrap(p, op=hvd.Sum)
    (p * (rank + 1)).sum().backward()
    with pytest.raises(ValueError, match="'p0' belongs also to a DistributedOptimizer"):
        one.step()
    two.step()
    assert float(p.grad[0]) == mean(size) * size


def test_frozen_between_backward_and_step(rank, size):
    """Also those that backward reached on some ranks only."""
    for settings in ({"groups": 1}, {}):
        a, b = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
        optimizer = wrap(a, b, **settings)
        ((a + b if rank == 0 else a) * (rank + 1)).sum().backward()
        b.requires_grad_(False)
        optimizer.step()
        assert a.tolist() == [-mean(size)] * 2 and torch.allclose(b, torch.tensor(-1.0 / size))
        optimizer.zero_grad(set_to_none=True)
        (a * (rank + 1)).sum().backward()
        optimizer.step()
        assert a.tolist() == [-2 * mean(size)] * 2 and torch.allclose(b, torch.tensor(-1.0 / size))


def test_groups_that_come_and_go(rank, size):
    """add_param_group of the optimizer that was given, and a group that is taken out."""
    a, b = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    plain = torch.optim.SGD([a], lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, [("a", a)])
    plain.add_param_group({"params": [b]})
    ((a + b) * (rank + 1)).sum().backward()
    optimizer.step()
    assert b.tolist() == [-mean(size)] * 2
    del optimizer.param_groups[1]
    optimizer.zero_grad()
    b.grad = None
    optimizer.step()
    ((a + b) * (rank + 1)).sum().backward()
    optimizer.step()
    assert b.grad.tolist() == [rank + 1.0] * 2 and a.grad.tolist() == [mean(size)] * 2


def test_backward_in_several_threads(rank, size):
    """Each computes gradients of its own part of a group."""
    parts = [[torch.nn.Parameter(torch.zeros(3)) for _ in range(8)] for _ in range(2)]
    for settings in ({"groups": 1}, {}):
        optimizer = wrap(*parts[0], *parts[1], **settings)

        def work(part):
            (sum(each.sum() for each in part) * (rank + 1)).backward()

        for _ in range(5):
            optimizer.zero_grad(set_to_none=True)
            threads = [threading.Thread(target=work, args=(part,)) for part in parts]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            optimizer.step()
            for each in parts[0] + parts[1]:
                assert each.grad.tolist() == [mean(size)] * 3


# ---- Sparse gradients ---------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum], ids=["average", "sum"])
def test_sparse_adam(rank, size, dense, op):
    """Against the same on the whole batch; only rows of the batch change."""
    rows = [[0, 9], [1, 9], [0, 3], [9, 9]]

    def train(table, optimizer, ranks, factor):
        for step in range(3):
            optimizer.zero_grad()
            batch = torch.tensor([row for each in ranks for row in rows[(each + step) % 4]])
            (table(batch).pow(2).sum() * factor).backward()
            optimizer.step()
        return table.weight

    tables = []
    for _ in range(2):
        torch.manual_seed(5)
        tables.append(torch.nn.Embedding(10, 3, sparse=True))
    plain = torch.optim.SparseAdam(list(tables[0].parameters()), lr=0.1)
    ours = hvd.DistributedOptimizer(
        torch.optim.SparseAdam(list(tables[1].parameters()), lr=0.1),
        tables[1].named_parameters(),
        sparse_as_dense=dense,
        op=op,
    )
    hvd.broadcast_parameters(tables[1].state_dict(), 0)
    expected = train(tables[0], plain, range(size), 1.0 if op == hvd.Sum else 1.0 / size)
    found = train(tables[1], ours, [rank], 1.0)
    assert torch.allclose(found, expected, atol=1e-5) and same_everywhere([found])


def test_sparse_adam_that_some_ranks_do_not_reach(rank, size):
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SparseAdam(list(table.parameters()), lr=0.1), table.named_parameters()
    )
    hvd.broadcast_parameters(table.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    for step in range(2):
        optimizer.zero_grad(set_to_none=step == 0)
        if rank == 0:
            table(torch.tensor([1])).sum().backward()
        optimizer.step()
    assert same_everywhere([table.weight])


def test_sparse_against_dense_is_an_error(rank, size):
    """A rank that does not know that gradients are sparse submits another operation."""
    if size == 1:
        pytest.skip("one rank reduces nothing")
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=0.1), [("unknown", table.weight)]
    )
    if rank == 0:
        table(torch.tensor([1])).sum().backward()
    with pytest.raises(hvd.HvdError, match="unknown"):
        optimizer.step()


# ---- State --------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["plain", "wrapped", "load", "load plain"])
def test_schedulers_go_on(rank, size, after):
    """Those of the plain optimizer, and dicts of groups and states that the program holds."""
    p = torch.nn.Parameter(torch.zeros(1))
    plain = torch.optim.SGD([p], lr=1.0, momentum=0.0)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.1)
    group = plain.param_groups[0]
    optimizer = hvd.DistributedOptimizer(plain, [("p", p)])
    if rank == 0:
        group["momentum"] = 0.5
    if after.startswith("load"):
        (plain if after == "load plain" else optimizer).load_state_dict(optimizer.state_dict())
    optimizer.state_dict()
    group = group if after == "load" else optimizer.param_groups[0]
    hvd.broadcast_optimizer_state(plain if after == "plain" else optimizer, root_rank=0)
    assert group["momentum"] == 0.5 and optimizer.param_groups[0] is group
    group["momentum"] = 0.0
    if after == "load plain":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of scheduler.step() before optimizer.step()
        for _ in range(3):
            optimizer.zero_grad()
            p.sum().backward()
            optimizer.step()
            scheduler.step()
    assert abs(optimizer.param_groups[0]["lr"] - 0.001) < 1e-9 and abs(float(p) + 1.11) < 1e-6


def test_no_warning_of_schedulers_made_before(rank, size):
    p = torch.nn.Parameter(torch.zeros(1))
    plain = torch.optim.SGD([p], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1)
    optimizer = hvd.DistributedOptimizer(plain, [("p", p)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p.sum().backward()
        optimizer.step()
        scheduler.step()


MAKERS = [
    lambda each: torch.optim.SGD(each, lr=0.1, momentum=0.9, weight_decay=0.1),
    lambda each: torch.optim.AdamW(each, lr=0.1),
    lambda each: torch.optim.Adagrad(each, lr=0.1),
    lambda each: torch.optim.LBFGS(each, lr=0.1),
]


@pytest.mark.parametrize("number", range(len(MAKERS)))
@pytest.mark.parametrize("wrapped", [False, True])
def test_state_where_there_was_none(rank, size, number, wrapped):
    """As in Horovod a step with zero gradients makes it; parameters stay. It is received in the
    tensors that are there."""
    torch.manual_seed(2)
    model = torch.nn.Linear(3, 2)
    before = [each.detach().clone() for each in model.parameters()]
    optimizer = MAKERS[number](model.parameters())
    optimizer.param_groups[0]["lr"] = 0.1 * (rank + 1)
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_optimizer_state(optimizer, root_rank=size - 1)
    assert optimizer.param_groups[0]["lr"] == 0.1 * size
    for each, value in zip(model.parameters(), before):
        assert torch.equal(each, value)
    if number >= 2:  # it had a state before, or is LBFGS
        return
    assert all(not each.grad.any() for each in model.parameters())
    key = ("momentum_buffer", "exp_avg")[number]
    mine = optimizer.state[model.weight][key]
    if rank == 0:
        optimizer.state[model.weight][key].fill_(7)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.state[model.weight][key] is mine and float(mine[0, 0]) == 7


# ---- Like the plain one -------------------------------------------------------------------------


def trained(optimizer, p, rank):
    optimizer.zero_grad()
    (p * (rank + 1)).sum().backward()
    optimizer.step()
    return p.grad.tolist()


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "save"])
def test_copies(rank, size, way):
    p = torch.nn.Parameter(torch.zeros(2))
    plain = torch.optim.Adam([p], lr=0.5)
    optimizer = hvd.DistributedOptimizer(plain, [("p", p)], op=hvd.Sum, groups=1)
    trained(optimizer, p, rank)
    buffer = io.BytesIO()
    if way == "save":
        torch.save(optimizer, buffer)
    ways = {
        "copy": lambda: copy.copy(optimizer),
        "deepcopy": lambda: copy.deepcopy(optimizer),
        "pickle": lambda: pickle.loads(pickle.dumps(optimizer)),
        "save": lambda: torch.load(io.BytesIO(buffer.getvalue()), **WHOLE),
    }
    made = ways[way]()
    assert type(made) is type(optimizer) and isinstance(made, torch.optim.Adam)
    assert made.op == hvd.Sum and made.backward_passes_per_step == 1
    own = made.param_groups[0]["params"][0]
    assert (own is p) == (way == "copy") and torch.equal(own, p)
    assert float(made.state[own]["step"]) == 1
    assert trained(made, own, rank) == [mean(size) * size] * 2
    assert trained(optimizer, p, rank) == [mean(size) * size] * 2


def test_model_optimizer_and_scheduler_together(rank, size):
    """As checkpoints of whole objects, whose scheduler holds bound methods."""
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters()
    )
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    scheduler.on_step = optimizer.zero_grad
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save({"all": (model, optimizer, scheduler)}, buffer)
    model, optimizer, scheduler = torch.load(io.BytesIO(buffer.getvalue()), **WHOLE)["all"]
    assert scheduler.optimizer is optimizer and scheduler.on_step.__self__ is optimizer
    assert optimizer.param_groups[0]["params"][0] is model.weight
    (model(torch.ones(1, 2)) * (rank + 1)).sum().backward()
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch misses the counter of steps, also of plain ones
        scheduler.step()
    assert model.weight.grad.tolist() == [[mean(size)] * 2]
    assert optimizer.param_groups[0]["lr"] == 0.5


class Plain(torch.optim.Optimizer):
    """A step without a closure, and one that takes more."""

    def __init__(self, params, lr=1.0):
        super().__init__(params, {"lr": lr})

    def step(self):
        for group in self.param_groups:
            for each in group["params"]:
                each.data -= group["lr"] * each.grad


class More(Plain):
    def step(self, closure=None, scale=1.0):
        for group in self.param_groups:
            group["lr"] = scale
        super().step()


def test_steps_of_other_forms(rank, size):
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = wrap(p, make=Plain)
    trained(optimizer, p, rank)
    assert float(p) == -mean(size)
    optimizer = wrap(p, make=More)
    p.grad = torch.full((1,), rank + 1.0)
    optimizer.step(scale=2.0)
    assert float(p) == -3 * mean(size)
    again = type(optimizer)([p])  # as some libraries do
    again.step()
    assert float(p) == -4 * mean(size)


def test_compression_by_hand(rank, size):
    from hvd.torch.compression import Compressor, FP16Compressor

    class Halves(FP16Compressor):
        """Sends half of it."""

        @staticmethod
        def compress(tensor):
            packed, ctx = FP16Compressor.compress(tensor * 0.5)
            return packed, ctx

    class Tuples(Compressor):
        @staticmethod
        def compress(tensor):
            packed, ctx = hvd.Compression.bf16.compress(tensor)
            return packed, ("was", ctx)

        @staticmethod
        def decompress(tensor, ctx):
            assert ctx[0] == "was"
            return hvd.Compression.bf16.decompress(tensor, ctx[1])

    half = hvd.Compression.fp16
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        packed, ctx = half.compress(torch.ones(2, dtype=kind))
        assert packed.dtype == torch.float16
        assert half.decompress(packed, ctx).dtype == kind
    assert half.compress(torch.ones(2, dtype=torch.int32))[0].dtype == torch.int32
    ones = torch.full((3,), rank + 1.0)
    assert hvd.allreduce(ones, compression=Halves).tolist() == [mean(size) / 2] * 3
    group = hvd.grouped_allreduce([ones, ones.double()], compression=Tuples)
    assert [each.dtype for each in group] == [torch.float32, torch.float64]
    for compression, factor in ((Halves, 0.5 if size > 1 else 1.0), (Tuples, 1.0), (half, 1.0)):
        for settings in ({}, {"groups": 1}, {"gradients_in_window": False}):
            p = torch.nn.Parameter(torch.zeros(2))
            optimizer = wrap(p, compression=compression, **settings)
            for _ in range(2):
                assert trained(optimizer, p, rank) == [mean(size) * factor] * 2


def test_forked_child(rank, size):
    """It computes gradients; its parent's stay what they are."""
    p = torch.nn.Parameter(torch.zeros(5000))
    optimizer = wrap(p)
    trained(optimizer, p, rank)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            p.sum().backward()
            status = 0 if float(p.grad[0]) == mean(size) + 1 else 2
            optimizer.zero_grad(set_to_none=False)
        except RuntimeError as error:
            status = 3 if "fork" in str(error) else 1
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    if status == 3 << 8:
        pytest.skip("this torch computes no gradients in a forked child")
    assert status == 0
    assert float(p.grad[0]) == mean(size) and float(p.grad[-1]) == mean(size)
    assert trained(optimizer, p, rank)[0] == mean(size)


# ---- The next job, or the next epoch of an elastic one ------------------------------------------


def begin_next_job():
    hvd.shutdown()
    hvd.init()


def test_gradients_of_the_job_before_are_forgotten(rank):
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = wrap(p, lr=0.0)
    with contextlib.suppress(errors.ShutdownError):  # another rank was faster
        p.sum().backward()
    begin_next_job()
    assert p.grad is None
    for _ in range(2):
        p.sum().backward()  # the first time before the optimizer is asked for anything
        optimizer.step()
    assert p.grad.tolist() == [2.0] * 3


def test_an_optimizer_waits_for_its_process_set(rank, size):
    if size == 1:
        pytest.skip("a job of one rank has no other sets")
    evens = hvd.add_process_set(range(0, size, 2))
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = wrap(p, process_set=evens)
    begin_next_job()
    with pytest.raises(errors.StateError, match="is not known to hvd"):
        optimizer.zero_grad()
    hvd.add_process_set(evens)
    optimizer.zero_grad()
    (p * (rank + 1)).sum().backward()
    optimizer.step()
    average = 1 + sum(evens.ranks) / len(evens.ranks)
    assert p.grad.tolist() == [average if evens.included() else rank + 1] * 3
    hvd.remove_process_set(evens)
