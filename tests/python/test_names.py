"""What ranks find each other by without names, and exceptions that a signal handler raises between
any two steps of the package."""
import contextlib
import dis
import functools
import gc
import itertools
import os
import signal
import sys
import threading

import numpy as np
import pytest

import hvd


def ones(count=4):
    return np.ones(count, "float32")


# ---- Unnamed operations -------------------------------------------------------------------------

# Each makes one operation, and returns what rank 0 sends and what all expect of 1 from each rank
OPERATIONS = {
    "allreduce": lambda out: hvd.allreduce(out, hvd.Sum),
    "allreduce_async": lambda out: hvd.allreduce_async(out, hvd.Sum).wait(),
    "grouped_allreduce": lambda out: hvd.grouped_allreduce([out, out], hvd.Sum)[1],
    "reducescatter": lambda out: hvd.reducescatter(np.tile(out, hvd.size()), hvd.Sum),
    "grouped_reducescatter": lambda out: hvd.grouped_reducescatter(
        [np.tile(out, hvd.size())], hvd.Sum
    )[0],
    "allgather": lambda out: hvd.allgather(out).reshape(hvd.size(), -1).sum(0),
    "grouped_allgather": lambda out: hvd.grouped_allgather([out])[0].reshape(hvd.size(), -1).sum(0),
    "alltoall": lambda out: sum(np.split(hvd.alltoall(np.tile(out, hvd.size()))[0], hvd.size())),
    "broadcast": lambda out: hvd.broadcast(out * hvd.size(), 0),
    "reduce": lambda out: hvd.broadcast(first(hvd.reduce(out, 0, hvd.Sum), out), 0),
    "gather": lambda out: hvd.broadcast(
        first(hvd.gather(out, 0), np.tile(out, hvd.size())).reshape(hvd.size(), -1).sum(0), 0
    ),
    "scatter": lambda out: hvd.scatter(np.tile(out * hvd.size(), hvd.size()), 0),
}


def first(result, elsewhere):
    """What only the root has."""
    return elsewhere if result is None else result


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_unnamed_after_a_refusal_on_one_rank(rank, size, operation):
    """Refused by Python for its type, and by libhvd for its process set."""
    perform = OPERATIONS[operation]
    if rank == 0:
        for _ in range(3):
            with pytest.raises(hvd.InvalidError, match="complex64"):
                perform(np.ones(4, "complex64"))
    np.testing.assert_array_equal(perform(ones()), [size] * 4)


def test_unnamed_after_refusals_of_libhvd(rank, size):
    refused = [
        lambda: hvd.broadcast(ones(), size),
        lambda: hvd.broadcast_async(ones(), -1),
        lambda: hvd.allreduce(ones(), process_set=999),
        lambda: hvd.allreduce_async(ones(), 77),
        lambda: hvd.reducescatter(np.float32(1)),
        lambda: hvd.allgather(np.float32(1)),
        lambda: hvd.grouped_allgather([np.float32(1)]),
        lambda: hvd.alltoall(ones(), [1] * size + [3]),
        lambda: hvd.alltoall(ones(), [-1] * size),
        lambda: hvd.grouped_allreduce([]),
    ]
    if rank == 0:
        for each in refused:
            with pytest.raises(ValueError):
                each()
    for perform in OPERATIONS.values():
        np.testing.assert_array_equal(perform(ones()), [size] * 4)


def test_unnamed_in_sets_one_after_another(rank, size):
    """Who is no member is refused, and may be a member of the next set, which may have that
    number."""
    if size == 1:
        pytest.skip("a job of one rank has no other sets")
    for ranks in ([0], list(range(1, size)), [0, size - 1] if size > 2 else [1]):
        added = hvd.add_process_set(ranks)
        for _ in range(1 + rank):
            if not added.included():
                with pytest.raises(hvd.SetError):
                    hvd.allreduce(ones(), process_set=added)
        if added.included():
            result = hvd.allreduce(ones(), hvd.Sum, process_set=added)
            np.testing.assert_array_equal(result, [len(ranks)] * 4)
        hvd.barrier()
        hvd.remove_process_set(added)


def test_unnamed_after_join(rank, size):
    for form in ("waits", "async"):
        for _ in range(2 + 2 * rank):  # uneven batches
            hvd.allreduce(ones())
            hvd.grouped_allreduce([ones(), ones()])
        if form == "waits":
            hvd.join()
            pending = hvd.allreduce_async(ones(), hvd.Sum)
        else:
            joined = hvd.join_async()
            pending = hvd.allreduce_async(ones(), hvd.Sum)  # waits until all have joined
            joined.wait()
        for perform in OPERATIONS.values():
            np.testing.assert_array_equal(perform(ones()), [size] * 4)
        np.testing.assert_array_equal(pending.wait(), [size] * 4)
        assert hvd.allgather_object(rank) == list(range(size))


def test_objects_share_no_count(rank, size):
    """Their names depend neither on refused operations nor on earlier objects."""
    if rank == 0:
        with pytest.raises(ValueError):
            hvd.allgather(np.float32(1))
        with pytest.raises(ValueError):
            hvd.broadcast(np.ones(3, "complex64"), 0)
    assert hvd.allgather_object({"rank": rank}) == [{"rank": each} for each in range(size)]
    for root in range(size):
        thing = ("from", root) if rank == root else None
        assert hvd.broadcast_object(thing, root) == ("from", root)
    with pytest.raises(hvd.InvalidError, match="max_bytes=10|cannot send|cannot broadcast"):
        hvd.broadcast_object("x" * 100 if rank == 0 else None, 0, max_bytes=10)
    with pytest.raises(hvd.InvalidError, match="more than max_bytes=10"):
        hvd.allgather_object("x" * 100, max_bytes=10)
    assert hvd.broadcast_object("x" * 100, 0) == "x" * 100


def test_objects_have_no_limit(monkeypatch):
    """An object of 1 GiB and more: it is enough that its pickle says so."""
    from hvd import _objects

    class Large(bytes):
        def __len__(self):
            return 1 << 31

    monkeypatch.setattr(_objects.pickle, "dumps", lambda *_, **__: Large(b"much"))
    assert _objects._pickled(None, None).size == 4
    with pytest.raises(hvd.InvalidError, match="2147483648 bytes"):
        _objects._pickled(None, 1 << 30)


@pytest.mark.parametrize("length", [255, 256, 4000])
def test_long_names(rank, size, length):
    """Names that differ at their ends only; also of groups, and with letters of two bytes."""
    for letter in ("x", "\u00e9"):
        names = [letter * length + end for end in ("a", "b")]
        order = names if rank % 2 else names[::-1]
        handles = {name: hvd.allreduce_async(ones() * len(name), hvd.Sum, name) for name in order}
        grouped = hvd.grouped_allreduce([ones(), 2 * ones()], hvd.Sum, names[0] + "g")
        for i, name in enumerate(names):
            np.testing.assert_array_equal(handles[name].wait(), [size * len(name)] * 4)
            np.testing.assert_array_equal(grouped[i], [size * (i + 1)] * 4)


def test_named_in_place_without_elements(rank, size):
    nothing = np.zeros(0, "float32")
    for _ in range(2):
        assert hvd.allreduce(nothing, name="nothing", out=nothing) is nothing
        assert hvd.grouped_allreduce([nothing], name="nothings", outs=[nothing])[0] is nothing


def test_splits_are_refused_in_a_sentence(rank, size):
    table = np.ones((size, 2), "int64")
    for wrong in ([[1] * size], table, [1.5] * size, 3, ["1"] * size, [1 << 64] * size):
        with pytest.raises(hvd.InvalidError, match="alltoall: splits=.*one for each member"):
            hvd.alltoall(ones(size), wrong)
    rows, counts = hvd.alltoall(ones(size), np.ones(size, "int32"))
    assert counts == [1] * size and list(rows) == [1] * size


# ---- torch --------------------------------------------------------------------------------------


def gradient_of(module, operation, rank, size, name):
    import torch

    tensor = torch.full((2 * size,), rank + 1.0, requires_grad=True)
    if operation == "allreduce":
        result = module.allreduce(tensor, name=name, op=module.Sum)
    elif operation == "grouped_allreduce":
        result = module.grouped_allreduce([tensor], name=name, op=module.Sum)[0]
    elif operation == "allgather":
        result = module.allgather(tensor, name=name)
    elif operation == "grouped_allgather":
        result = module.grouped_allgather([tensor], name=name)[0]
    elif operation == "broadcast":
        result = module.broadcast(tensor, 0, name=name)
    elif operation == "alltoall":
        result = module.alltoall(tensor, name=name)
    elif operation == "reducescatter":
        result = module.reducescatter(tensor, name=name)
    else:
        result = module.grouped_reducescatter([tensor], name=name)[0]
    result.sum().backward()
    return tensor.grad


GRADIENTS = [
    "allreduce", "grouped_allreduce", "allgather", "grouped_allgather", "broadcast", "alltoall",
    "reducescatter", "grouped_reducescatter",
]  # fmt: skip


@pytest.mark.parametrize("name", [None, "loss"])
@pytest.mark.parametrize("operation", GRADIENTS)
def test_gradients_after_join_and_refusal(rank, size, operation, name):
    pytest.importorskip("torch")
    import hvd.torch as module

    expected = gradient_of(module, operation, rank, size, name)
    for _ in range(1 + rank):
        gradient_of(module, "allreduce", rank, size, "uneven")
        module.allreduce(expected)
    if rank == 0:
        with pytest.raises(ValueError):
            module.broadcast(expected, size)
    module.join()
    assert gradient_of(module, operation, rank, size, name).equal(expected)


def test_sparse_without_a_name_after_a_refusal(rank, size):
    torch = pytest.importorskip("torch")
    import hvd.torch as module

    if rank == 0:
        with pytest.raises(ValueError):
            module.allgather(torch.tensor(1.0))
    handles = [
        module.sparse_allreduce_async(torch.eye(3).to_sparse() * (i + 1), None, module.Sum)
        for i in range(2)
    ]
    for i, handle in enumerate(handles):
        assert handle.wait().to_dense().equal(torch.eye(3) * (i + 1) * size)


def test_sync_batch_norm_after_join(rank, size):
    torch = pytest.importorskip("torch")
    import hvd.torch as module

    layer = module.SyncBatchNorm(3)
    for _ in range(1 + rank):
        # a joined rank takes part with zeros, so with no elements
        layer(torch.randn(5, 3)).sum().backward()
    module.join()
    torch.manual_seed(1)
    whole = torch.randn(4 * size, 3)
    expected = torch.nn.BatchNorm1d(3)(whole)
    result = layer(whole[4 * rank : 4 * rank + 4])
    assert torch.allclose(result, expected[4 * rank : 4 * rank + 4], atol=1e-5)


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "module", "autocast"])
@pytest.mark.parametrize("shape", [(6, 2), (5, 2, 7), (3, 2, 5, 7), (2, 2, 3, 2, 5)])
def test_sync_batch_norm_is_that_of_the_whole_batch(rank, size, kind, shape):
    """Uneven batches far from zero, against BatchNorm on all of them in float64."""
    torch = pytest.importorskip("torch")
    import hvd.torch as module

    if size == 1:
        pytest.skip("a job of one rank uses torch's own")
    torch.manual_seed(7)
    dtype = torch.bfloat16 if kind in ("module", "autocast") else getattr(torch, kind)
    parts = [
        (torch.randn(shape[0] + each, *shape[1:]) * 2 + 30).to(dtype) for each in range(size)
    ]
    plain, ours = torch.nn.BatchNorm1d(2).double(), module.SyncBatchNorm(2)
    if kind in ("float64", "module"):
        ours = ours.to(dtype)
    with torch.no_grad():
        ours.weight.copy_(torch.tensor([0.5, 2.0]))
        plain.weight.copy_(ours.weight)
    whole = torch.cat([each.double() for each in parts]).requires_grad_()
    mine = parts[rank].clone().requires_grad_()
    flat = whole.reshape(whole.shape[0], 2, -1)
    expected = plain(flat).reshape(whole.shape)
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        result = ours(mine)
    assert result.dtype == dtype
    begin = sum(each.shape[0] for each in parts[:rank])
    own = slice(begin, begin + mine.shape[0])
    near = 4e-2 if dtype == torch.bfloat16 else 1e-4 if dtype == torch.float32 else 1e-9
    assert torch.allclose(result.double(), expected[own], atol=near, rtol=near)
    factors = torch.randn(whole.shape, dtype=torch.float64)
    (expected * factors).sum().backward()
    (result * factors[own].to(dtype)).sum().backward()
    assert mine.grad.dtype == dtype
    assert torch.allclose(mine.grad.double(), whole.grad[own], atol=near, rtol=near)
    for given, wanted in ((ours.weight, plain.weight), (ours.bias, plain.bias)):
        total = module.allreduce(given.grad.double(), op=module.Sum)
        assert torch.allclose(total, wanted.grad, atol=near * 20, rtol=near * 2)
    far = 1e-2 if kind == "module" else 1e-5
    assert torch.allclose(ours.running_mean.double(), plain.running_mean, rtol=far)
    assert torch.allclose(ours.running_var.double(), plain.running_var, rtol=far)


def test_sync_batch_norm_of_many_halves(rank, size):
    """More elements than float16 can count; no elements at all."""
    torch = pytest.importorskip("torch")
    import hvd.torch as module

    if size == 1:
        pytest.skip("a job of one rank uses torch's own, which has no float16 on the host")
    layer = module.SyncBatchNorm(1)
    data = torch.arange(300 * 300).remainder(3).reshape(1, 1, 300, 300).half()
    result = layer(data)
    assert result.dtype == torch.float16
    assert abs(float(result.float().mean())) < 1e-3
    assert abs(float(layer.running_mean) - 0.1) < 1e-6
    before = layer.running_var.clone()
    assert layer(torch.empty(0, 1, 2, 2)).shape == (0, 1, 2, 2)
    assert layer.running_var.equal(before)
    with pytest.raises(ValueError, match="floating point"):
        layer(torch.ones(2, 1, dtype=torch.int64))


def test_groups_of_torch_in_job_after_job(rank, size):
    """A rank that was in more jobs has made more groups."""
    torch = pytest.importorskip("torch")
    import torch.distributed as dist

    import hvd.distributed

    def total():
        dist.init_process_group("hvd")
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        dist.destroy_process_group()
        return tensor.tolist()

    hvd.barrier()
    hvd.shutdown()
    hvd.init([rank])
    if rank == 0:
        assert total() == [1, 1]
    hvd.shutdown()
    hvd.init()
    assert total() == [size, size]


def test_distributed_after_a_refusal_on_one_rank(rank, size):
    torch = pytest.importorskip("torch")
    import torch.distributed as dist

    import hvd.distributed

    dist.init_process_group("hvd")
    group = dist.distributed_c10d._get_default_group()
    for wrong in (torch.complex32, torch.complex64):
        tensor = torch.ones(2, dtype=wrong if rank == 0 else torch.float32)
        with pytest.raises(Exception):  # the others are told, and do not wait
            group.allreduce([tensor]).wait()
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size, size]
    dist.destroy_process_group()


# ---- Exceptions between any two steps -----------------------------------------------------------


class Late(Exception):
    """What a signal handler of the program raises."""


# after these and jumps backward Python calls signal handlers; before 3.11 it may after others too
_CHECKS = ("CALL", "RESUME") if sys.version_info >= (3, 11) else ("",)
_PACKAGE = os.path.dirname(hvd.__file__)


@functools.lru_cache(maxsize=None)
def places_of(code):
    """The offsets in a code of the package before which Python would call a signal handler."""
    found, before = set(), ""
    for each in dis.get_instructions(code):
        if before.startswith(_CHECKS):
            found.add(each.offset)
        if each.opname.startswith("JUMP_BACKWARD"):
            found.add(each.argval)
        before = each.opname
    return found


def is_ours(code):
    return code.co_filename.startswith(_PACKAGE)


@contextlib.contextmanager
def traced(step):
    """Within it step(code, offset) is called before each step of the package."""

    def trace(frame, event, _):
        if not is_ours(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def opcode(frame, event, _):
            if event == "opcode":
                step(frame.f_code, frame.f_lasti)
            return opcode

        return opcode

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


@contextlib.contextmanager
def monitored(step):
    """The same since Python 3.12, where traced misses steps of what was not traced before."""
    monitoring, thread = sys.monitoring, threading.get_ident()
    tool, event = monitoring.DEBUGGER_ID, monitoring.events.INSTRUCTION

    def instruction(code, offset):
        if not is_ours(code):
            return monitoring.DISABLE
        return step(code, offset) if threading.get_ident() == thread else None

    monitoring.use_tool_id(tool, "test_names")
    monitoring.register_callback(tool, event, instruction)
    monitoring.set_events(tool, event)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


def raises_at(function, number):
    """Call the function, and raise Late in the package at the place of this number at which Python
    would call a signal handler. False: there are not so many."""
    places = itertools.count()

    def step(code, offset):
        if offset in places_of(code) and next(places) == number:
            raise Late()

    gc.disable()  # what it ends would be traced too, and an exception in there is lost
    try:
        with monitored(step) if hasattr(sys, "monitoring") else traced(step):
            function()
        return False
    except Late:
        return True
    finally:
        gc.enable()


@pytest.fixture
def alone(rank, size):
    """A process set of this rank, or that of all if it is alone."""
    sets = [hvd.add_process_set([each]) for each in range(size)] if size > 1 else [0]
    yield sets[rank]
    hvd.barrier()
    for each in sets if size > 1 else []:
        hvd.remove_process_set(each)


def number_of(handle):
    return int(handle.name.rpartition(".")[2])


@pytest.mark.parametrize("form", [hvd.allreduce_async, hvd.allreduce])
def test_a_name_counts_when_libhvd_has_it(alone, form):
    """An unnamed operation that is interrupted anywhere takes a name if and only if it runs."""
    last = number_of(hvd.allreduce_async(ones(), process_set=alone))
    done = interrupted = 0
    for place in itertools.count():
        array = ones()
        call = lambda: form(array, hvd.Sum, prescale=2.0, process_set=alone, out=array)
        was_interrupted = raises_at(call, place)
        marker = hvd.allreduce_async(ones(), process_set=alone)
        number = number_of(marker)
        marker.wait()
        assert (number - last) % 256 == 1 + (array[0] == 2), place
        last, done, interrupted = number, done + (array[0] == 2), interrupted + was_interrupted
        if not was_interrupted:
            break
    assert done > 1 and interrupted > done


RESULTS = {
    "allreduce": lambda alone: hvd.allreduce_async(ones(), hvd.Sum, process_set=alone),
    "strided": lambda alone: hvd.allreduce_async(
        ones(), hvd.Sum, out=np.zeros(8, "float32")[::2], process_set=alone
    ),
    "allgather": lambda alone: hvd.allgather_async(ones(), process_set=alone),
    "grouped_allgather": lambda alone: hvd.grouped_allgather_async([ones()], process_set=alone),
    "alltoall": lambda alone: hvd.alltoall_async(ones(), process_set=alone),
}


@pytest.mark.parametrize("operation", sorted(RESULTS))
def test_an_interrupted_wait_waits_again(alone, operation):
    for place in itertools.count():
        handle = RESULTS[operation](alone)
        was_interrupted = raises_at(handle.wait, place)
        for _ in range(2):
            result = handle.wait()
            result = result if operation in ("allreduce", "strided", "allgather") else result[0]
            np.testing.assert_array_equal(result, ones())
        if not was_interrupted:
            break
    assert place > 3


def test_an_error_of_a_result_is_not_lost(rank, size):
    handle = hvd.allgather_async(ones(3))
    finish, failures = handle._finish, [MemoryError("no room")] * 2

    def fails(value):
        if failures:
            raise failures.pop()
        return finish(value)

    handle._finish = fails
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            handle.wait()
    for _ in range(2):
        assert list(handle.wait()) == [1] * 3 * size


def test_signals_while_operations_are_submitted(rank, size):
    """A handler raises in submissions; the program then writes to memory that was freed, while the
    operations still wait for another rank. None may read or write there."""
    rounds, elements = 2000, 2048
    armed, lost, later, handles = [False], 0, [], []

    def handler(*_):
        if armed[0]:
            armed[0] = False
            raise Late()

    if rank == 0:
        before = signal.signal(signal.SIGALRM, handler)
        try:
            for k in range(rounds):
                array, handle = np.ones(elements, "float32"), None
                try:
                    try:
                        armed[0] = True
                        signal.setitimer(signal.ITIMER_REAL, (1 + k % 97) * 1e-6)
                        handle = hvd.allreduce_async(array, hvd.Sum, "signal%d" % k, out=array)
                    finally:
                        armed[0] = False
                except Late:
                    lost += 1
                if handle is not None:
                    handles.append(handle)
                array = handle = None
                later.append(np.full(elements, 7, "float32"))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        for k in range(rounds):  # what did not come to libhvd
            try:
                again = np.ones(elements, "float32")
                handles.append(hvd.allreduce_async(again, hvd.Sum, "signal%d" % k))
            except hvd.DuplicateError:
                pass
        if size == 1:
            handles = handles[:rounds]
    hvd.barrier()
    if rank > 0:
        handles = [
            hvd.allreduce_async(np.full(elements, 100, "float32"), hvd.Sum, "signal%d" % k)
            for k in range(rounds)
        ]
    for handle in handles:
        assert (handle.wait() == 1 + 100 * (size - 1)).all() or size == 1
    hvd.barrier()
    assert all((each == 7).all() for each in later)
    assert rank > 0 or lost > rounds // 20
    later = handles = None
    hvd.allreduce(ones())
    gc.collect()


def test_dropped_handles_that_another_thread_takes(size, monkeypatch):
    """While one submission looks at a dropped handle, another may have released all others."""
    from hvd import _flight

    results = [np.zeros(8, "float32") for _ in range(8)]
    handles = [
        hvd.allreduce_async(ones(), hvd.Sum, "dropped%d" % k, out=each[::2])
        for k, each in enumerate(results)
    ]
    hvd.barrier()
    while not all(each.done() for each in handles):
        pass
    handles.clear()
    test, taken = _flight.lib.hvd_test, []

    def others_are_taken(number):
        taken.extend(_flight.dropped)
        _flight.dropped.clear()
        return test(number)

    with monkeypatch.context() as patch:
        patch.setattr(_flight.lib, "hvd_test", others_are_taken)
        handle = hvd.allreduce_async(ones(), hvd.Sum, "kept")
    assert len(taken) >= 7
    _flight.dropped.extend(taken)
    taken.clear()
    np.testing.assert_array_equal(handle.wait(), [size] * 4)
    _flight.release_dropped(len(_flight.dropped))
    for each in results:  # which copies what a dropped handle left to do
        np.testing.assert_array_equal(each[::2], [size] * 4)


def test_threads_that_drop_handles(rank, size):
    """Each submission looks at dropped handles, which other threads look at as well."""
    errors, interval = [], sys.getswitchinterval()

    def drop(thread):
        try:
            for k in range(500):
                hvd.allreduce_async(ones(), name="dropped%d.%d" % (thread, k))
        except BaseException as error:
            errors.append(error)

    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=drop, args=(each,)) for each in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert not errors
    hvd.barrier()
