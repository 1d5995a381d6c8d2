"""hvd.elastic and hvd.torch.elastic without losses: what states save, restore and send, and how
samplers share out what is left. tests/run/python_elastic.bats has ranks that are lost."""
import os
import sys

import numpy as np
import pytest

import hvd
import hvd.elastic
from hvd.elastic import HostsUpdatedInterrupt, HostUpdateResult, ObjectState

# ---- States of values ---------------------------------------------------------------------------


def test_restore_goes_back_to_what_was_saved(rank):
    state = ObjectState(weights=np.zeros(3), history=[])
    state.weights += 1
    state.history.append("first")
    state.save()
    state.weights += 1
    state.history.append("second")
    for _ in range(2):  # what restore gave is none of what is saved
        state.restore()
        np.testing.assert_array_equal(state.weights, [1, 1, 1])
        assert state.history == ["first"]
        state.weights += 5
        state.history.clear()


def test_restore_before_a_save_gives_what_it_was_made_with():
    values = {"list": [1]}
    state = ObjectState(**values)
    values["list"].append(2)
    state.restore()
    assert state.list == [1]


def test_sync_gives_all_ranks_what_rank_0_has(rank):
    state = ObjectState(number=0)
    state.number = 10 + rank
    state.sync()
    assert state.number == 10
    state.number = 3
    state.restore()
    assert state.number == 10


def test_horovods_arguments(rank):
    asked = []

    def broadcast(thing):
        asked.append(thing)
        return {"number": 7}

    state = ObjectState(broadcast, lambda: 1, number=5)
    state.sync()
    assert asked == [{"number": 5}] and state.number == 7


def test_a_state_says_what_it_lacks():
    state = hvd.elastic.State()
    for call in (state.save, state.restore, state.sync):
        with pytest.raises(NotImplementedError):
            call()


# ---- News ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "notices, skips",
    [
        (["removed"], True),
        (["removed", "removed"], True),
        (["added"], False),
        (["removed", "added"], False),
        (["mixed"], False),
    ],
)
def test_a_notice_of_any_rank_is_for_all(rank, size, notices, skips):
    state = ObjectState(number=0)
    state.check_host_updates()
    if rank == size - 1:
        for i, notice in enumerate(notices):
            state.on_hosts_updated(i + 1, getattr(HostUpdateResult, notice))
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.commit()
    assert caught.value.skip_sync is skips
    assert state._host_messages.empty()
    state.check_host_updates()  # once


def test_a_notice_older_than_the_last_does_not_count(rank):
    state = ObjectState(number=0)
    state.on_hosts_updated(5, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt):
        state.check_host_updates()
    assert state._last_updated_timestamp == 5
    state.on_hosts_updated(4, HostUpdateResult.added)
    state.check_host_updates()


def test_no_update_is_none(rank):
    state = ObjectState(number=0)
    state.on_hosts_updated(1, HostUpdateResult.no_update)
    state.check_host_updates()


def test_commit_saves(rank):
    state = ObjectState(number=0)
    state.number = 4
    state.commit()
    state.number = 5
    state.restore()
    assert state.number == 4


# ---- Running ------------------------------------------------------------------------------------


def test_run_passes_arguments_and_returns_the_value(rank):
    @hvd.elastic.run
    def train(state, *args, **kwargs):
        """What it does."""
        return state.number, args, kwargs

    state = ObjectState(number=rank)
    assert train(state, 1, word=2) == (0, (1,), {"word": 2})
    assert train.__name__ == "train" and train.__doc__ == "What it does."


def test_run_goes_on_when_hosts_have_changed_and_loses_nothing(rank, size):
    state, resets, begins = ObjectState(step=0), [], []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state):
        begins.append(state.step)
        while state.step < 6:
            state.step += 1
            if state.step in (2, 4) and rank == 0:
                state.on_hosts_updated(state.step, HostUpdateResult.added)
            state.check_host_updates()

    train(state)
    assert begins == [0, 2, 4] and resets == [size, size]


def test_run_goes_back_to_the_commit_after_an_error_on_one_rank(rank, size):
    state, begins, failed = ObjectState(step=0), [], []

    @hvd.elastic.run
    def train(state):
        begins.append(state.step)
        while state.step < 6:
            if state.step == 5 and rank == size - 1 and not failed:
                failed.append(True)
                raise hvd.elastic.HorovodInternalError("of its own")
            hvd.barrier()
            state.step += 1
            if state.step % 2 == 0:
                state.commit()

    train(state)
    assert begins == [0, 4]


@pytest.mark.parametrize("behind", ["first", "last"])
def test_all_go_to_the_commit_of_rank_0_when_some_have_not_saved_it(rank, size, behind):
    state, begins, failed = ObjectState(step=0), [], []
    victim = 0 if behind == "first" else size - 1

    @hvd.elastic.run
    def train(state):
        begins.append(state.step)
        while state.step < 6:
            state.step += 1
            if state.step == 4 and rank == victim and not failed:
                failed.append(True)
                raise hvd.elastic.HorovodInternalError("before its commit")
            if state.step % 2 == 0:
                state.commit()

    train(state)
    assert begins == [0, 2 if victim == 0 else 4]


def test_run_gives_up_where_nothing_is_committed(rank):
    begins = []

    @hvd.elastic.run
    def train(state):
        begins.append(state.step)
        raise hvd.elastic.HorovodInternalError("each time")

    with pytest.raises(hvd.HvdError, match="3 epochs ended by an error.*the last error: each time"):
        train(ObjectState(step=0))
    assert len(begins) == 3
    hvd.barrier()


@pytest.mark.parametrize("error", [ValueError, hvd.InvalidError, hvd.MismatchError])
def test_other_errors_end_it(rank, error):
    begins = []

    @hvd.elastic.run
    def train(state):
        begins.append(1)
        raise error("no reason to begin again")

    with pytest.raises(error, match="no reason"):
        train(ObjectState())
    assert begins == [1]


def test_only_if_all_may_skip_it_is_the_state_not_sent(rank, size):
    synced = []

    class Noted(ObjectState):
        def sync(self):
            synced.append(self.step)
            super().sync()

    @hvd.elastic.run
    def train(state):
        if state.step < 2:
            state.step += 1
            alone = state.step == 2 and rank == size - 1
            raise HostsUpdatedInterrupt(skip_sync=not alone)

    train(Noted(step=0))
    assert synced == [0, 2]


def test_process_sets_end_with_their_epoch(rank, size):
    held, ranks = [], []

    @hvd.elastic.run
    def train(state):
        if held:
            with pytest.raises(hvd.StateError, match="in the next epoch of an elastic job"):
                hvd.allreduce(np.ones(1), process_set=held[0])
        held.append(hvd.add_process_set([0]))
        ranks.append(hvd.process_set_ranks(held[-1].process_set_id))
        if len(held) == 1:
            state.on_hosts_updated(1, HostUpdateResult.added)
            state.check_host_updates()

    if size > 1:
        train(ObjectState())
        assert ranks == [[0], [0]] and held[0].process_set_id is None


# ---- Samplers -----------------------------------------------------------------------------------


@pytest.fixture
def sampler_of(monkeypatch):
    """Makes samplers of ranks that are not there."""
    pytest.importorskip("torch")
    from hvd.torch.elastic import sampler as module

    def make(rank, size, state=None, count=100, shuffle=True):
        monkeypatch.setattr(module, "rank", lambda: rank)
        monkeypatch.setattr(module, "size", lambda: size)
        made = module.ElasticSampler(range(count), shuffle=shuffle, seed=3)
        if state is not None:
            made.load_state_dict(state)
        return made

    return make


def train_with(samplers, batch_size, batches):
    """What these ranks train with in so many batches."""
    done = []
    for sampler in samplers:
        own = list(sampler)
        assert len(own) == len(sampler)
        for i in range(batches):
            done += own[i * batch_size : (i + 1) * batch_size]
            sampler.record_batch(i, batch_size)
    return done


def test_sampler_shares_out_all_samples_once(sampler_of):
    parts = [list(sampler_of(rank, 4)) for rank in range(4)]
    assert sorted(sum(parts, [])) == list(range(100))
    assert parts[0] != list(range(0, 100, 4))
    assert list(sampler_of(1, 4, shuffle=False)) == list(range(1, 100, 4))


def test_sampler_pads_by_samples_that_come_twice(sampler_of):
    parts = [list(sampler_of(rank, 8, count=3)) for rank in range(8)]
    assert [len(each) for each in parts] == [1] * 8
    assert set(sum(parts, [])) == {0, 1, 2}
    assert list(sampler_of(0, 2, count=0)) == []


@pytest.mark.parametrize("sizes", [[4, 3, 2], [1, 4, 1], [2, 5, 3, 7], [3, 3]])
@pytest.mark.parametrize("batch_size", [1, 4, 5])
def test_each_sample_comes_once_when_ranks_change(sampler_of, sizes, batch_size):
    done, state = [], None
    for size in sizes[:-1]:
        samplers = [sampler_of(rank, size, state) for rank in range(size)]
        done += train_with(samplers, batch_size, 2)
        assert len({str(each.state_dict()) for each in samplers}) == 1
        state = samplers[0].state_dict()
        assert state["processed_num"] == len(done)
    rest = [list(sampler_of(rank, sizes[-1], state)) for rank in range(sizes[-1])]
    padding = -(100 - len(done)) % sizes[-1]
    assert len(done) == len(set(done))
    assert set(done) | set(sum(rest, [])) == set(range(100))
    assert len(done) + sum(map(len, rest)) == 100 + padding


def test_counts_are_exact_where_the_last_batch_is_smaller(sampler_of):
    samplers = [sampler_of(rank, 3, count=10) for rank in range(3)]
    train_with(samplers, 3, 2)  # of 4 samples each, two of which come twice
    assert [each.processed_num for each in samplers] == [10] * 3
    state = samplers[0].state_dict()
    assert list(sampler_of(0, 2, state, count=10)) == []


def test_set_epoch_begins_with_all_samples_in_another_order(sampler_of):
    sampler = sampler_of(0, 2)
    before = list(sampler)
    sampler.record_batch(0, 10)
    assert sampler.processed_num == 20 and len(sampler) == 50
    sampler.set_epoch(1)
    assert (sampler.epoch, sampler.processed_num, len(sampler)) == (1, 0, 50)
    assert list(sampler) != before


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("batch, largest", [(7, None), (7, 2), (4, 1), (2, 9), (30, 4)])
def test_a_constant_batch_is_shared_out_whole(sampler_of, size, batch, largest):
    from hvd.torch.elastic import ConstantBatch

    samplers = [sampler_of(rank, size, count=17) for rank in range(size)]
    order = samplers[0].remaining_indices
    ranks = [ConstantBatch(sampler, batch, largest) for sampler in samplers]
    passes = ranks[0].passes
    done = [list(each) for each in ranks]
    assert {len(each) for each in done} == {len(ranks[0])} == {-(-17 // batch) * passes}
    for begin in range(0, len(ranks[0]), passes):
        step = order[begin // passes * batch :][:batch]
        weights = dict.fromkeys(step, 0.0)
        for each, batches in zip(done, ranks):
            for i in range(begin, begin + passes):
                assert 1 <= len(each[i]) <= (largest or batch)
                assert batches.ends_step(i) == (i == begin + passes - 1)
                for sample in each[i]:
                    weights[sample] += batches.weight(i) / len(each[i]) / size
        assert weights == pytest.approx(dict.fromkeys(step, 1 / len(step)))
        for batches in ranks:
            batches.record(begin + passes - 1)
    assert {sampler.processed_num for sampler in samplers} == {17}


def test_a_constant_batch_goes_on_with_other_ranks(sampler_of):
    from hvd.torch.elastic import ConstantBatch

    sampler = sampler_of(0, 3, count=17, shuffle=False)
    batches = ConstantBatch(sampler, 6, 1)
    assert (batches.passes, len(batches)) == (2, 6)
    with pytest.raises(hvd.InvalidError, match="pass 0 ends no step of 2 passes"):
        batches.record(0)
    batches.record(1)
    batches = ConstantBatch(sampler_of(1, 2, sampler.state_dict(), count=17, shuffle=False), 6)
    assert list(batches) == [[7, 9, 11], [13, 15]]
    assert [batches.weight(i) for i in range(2)] == [1.0, 2 * 2 / 5]
    for wrong in ({"batch": 0}, {"batch": 4, "largest": 0}, {"batch": 1.5}):
        with pytest.raises(hvd.InvalidError, match="batch|largest"):
            ConstantBatch(sampler, **wrong)


def test_indices_that_were_recorded_do_not_come_again(sampler_of):
    sampler = sampler_of(0, 1, count=10, shuffle=False)
    sampler.record_indices([1, 5])
    sampler.record_indices([7])
    sampler = sampler_of(0, 2, sampler.state_dict(), count=10, shuffle=False)
    assert list(sampler) == [0, 3, 6, 9]
    with pytest.raises(hvd.InvalidError, match="call one only"):
        sampler.record_batch(0, 2)


def test_state_of_horovods_older_samplers_is_taken(sampler_of):
    state = {"epoch": 2, "processed_indices": [0, 1]}
    assert sorted(sampler_of(0, 1, state, count=4)) == [2, 3]


# ---- States of torch ----------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def elastic(torch):
    import hvd.torch.elastic

    return hvd.torch.elastic


def trained(torch, steps, **options):
    """A model and an optimizer that has made so many steps."""
    torch.manual_seed(7)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        step(torch, model, optimizer)
    return model, optimizer


def step(torch, model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()


def equal(torch, one, other):
    pairs = zip(one.parameters(), other.parameters())
    return all(torch.equal(own, theirs) for own, theirs in pairs)


@pytest.mark.parametrize("largest", [1, 2, None])
def test_a_constant_batch_trains_the_same_on_all_ranks(torch, elastic, size, largest):
    import hvd.torch

    inputs = torch.arange(51, dtype=torch.float64).reshape(17, 3).sin()
    targets = inputs.sum(1, keepdim=True)

    def loss_of(model, indices):
        return torch.nn.functional.mse_loss(model(inputs[indices]), targets[indices])

    def new():
        torch.manual_seed(3)
        model = torch.nn.Linear(3, 1).double()
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    model, optimizer = new()
    sampler = elastic.ElasticSampler(inputs, seed=2)
    order = list(sampler.remaining_indices)
    for begin in range(0, len(order), 5):
        optimizer.zero_grad()
        loss_of(model, order[begin : begin + 5]).backward()
        optimizer.step()

    same, optimizer = new()
    optimizer = hvd.torch.DistributedOptimizer(optimizer, same.named_parameters())
    batches = elastic.ConstantBatch(sampler, batch=5, largest=largest)
    optimizer.set_backward_passes_per_step(batches.passes)
    for i, indices in enumerate(batches):
        (loss_of(same, indices) * batches.weight(i)).backward()
        if batches.ends_step(i):
            optimizer.step()
            optimizer.zero_grad()
    for one, other in zip(model.parameters(), same.parameters()):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_restore_goes_back_with_model_and_optimizer(torch, elastic, rank):
    model, optimizer = trained(torch, 2)
    state = elastic.TorchState(model, optimizer, batch=2)
    for _ in range(2):
        step(torch, model, optimizer)
        state.batch += 1
        state.restore()
        assert state.batch == 2 and equal(torch, model, trained(torch, 2)[0])
        step(torch, model, optimizer)  # with the momentum of then
        assert equal(torch, model, trained(torch, 3)[0])
        state.restore()
    assert state.model is model and state.optimizer is optimizer


def test_sync_gives_all_ranks_the_model_and_optimizer_of_rank_0(torch, elastic, rank):
    model, optimizer = trained(torch, 0 if rank else 3)
    state = elastic.TorchState(model, optimizer, batch=rank)
    state.sync()
    assert state.batch == 0 and equal(torch, model, trained(torch, 3)[0])
    step(torch, model, optimizer)
    assert equal(torch, model, trained(torch, 4)[0])
    state.restore()  # what arrived is saved
    assert equal(torch, model, trained(torch, 3)[0])


def test_an_assigned_model_replaces_the_other_and_is_saved(torch, elastic, rank):
    state = elastic.TorchState(trained(torch, 0)[0])
    other = trained(torch, 5)[0]
    state.model = other
    with torch.no_grad():
        other.weight.zero_()
    state.restore()
    assert state.model is other and equal(torch, other, trained(torch, 5)[0])


def test_what_has_a_state_dict_keeps_its_identity(torch, elastic, rank):
    model, optimizer = trained(torch, 1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    state = elastic.TorchState(optimizer=optimizer, scheduler=scheduler)
    assert state.model is None
    scheduler.last_epoch = 5 + rank
    state.sync()
    assert state.scheduler is scheduler and scheduler.last_epoch == 5
    scheduler.last_epoch = 9
    state.restore()
    assert scheduler.last_epoch == 5


def test_samplers_go_on_where_rank_0_is(torch, elastic, rank, size):
    sampler = elastic.ElasticSampler(range(100), shuffle=False)
    state = elastic.TorchState(sampler=sampler)
    if rank == 0:
        sampler.record_batch(0, 3)
    state.sync()
    assert sampler.processed_num == 3 * size
    assert list(sampler)[0] == 3 * size + rank
    sampler.record_batch(0, 1)
    state.restore()
    assert sampler.processed_num == 3 * size


def test_indices_of_all_ranks_are_known_after_sync(torch, elastic, rank, size):
    sampler = elastic.ElasticSampler(range(100))
    sampler.record_indices([rank, 50 + rank])
    elastic.TorchState(sampler=sampler).sync()
    assert sampler.processed_indices == set(range(size)) | set(range(50, 50 + size))


def test_handlers_can_be_added(torch, elastic, rank):
    class Counter:
        count = 0

    class CounterHandler(elastic.StateHandler):
        def save(self):
            self.saved = self.value.count

        def restore(self):
            self.value.count = self.saved

        def sync(self):
            self.value.count = hvd.broadcast_object(self.value.count, 0)

    usual = elastic.get_handler_registry()
    elastic.set_handler_registry(usual + [(Counter, CounterHandler)])
    try:
        state = elastic.TorchState(counter=Counter())
    finally:
        elastic.set_handler_registry(usual)
    state.counter.count = 4 + rank
    state.sync()
    assert state.counter.count == 4
    state.counter.count = 9
    state.restore()
    assert state.counter.count == 4


def test_extra_state_of_modules_is_sent(torch, elastic, rank):
    class Extra(torch.nn.Linear):
        note = None

        def get_extra_state(self):
            return {"note": self.note}

        def set_extra_state(self, state):
            self.note = state["note"]

    model = Extra(2, 2)
    model.note = "of rank %d" % rank
    state = elastic.TorchState(model)
    state.sync()
    assert model.note == "of rank 0"


# ---- DistributedOptimizer in the next epoch -----------------------------------------------------



@pytest.mark.parametrize(
    "settings",
    [{}, {"gradients_in_window": False}, {"groups": 1}, {"backward_passes_per_step": 2}],
    ids=str,
)
def test_the_optimizer_starts_afresh_after_an_error(torch, elastic, rank, size, settings):
    import hvd.torch

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.torch.DistributedOptimizer(optimizer, model.named_parameters(), **settings)
    passes, begins = settings.get("backward_passes_per_step", 1), []

    @elastic.run
    def train(state):
        begins.append(1)
        if len(begins) == 1:  # gradients are in flight, and some are not submitted yet
            model(torch.ones(3, 4) * 1000).sum().backward()
            raise elastic.HorovodInternalError("in the middle of a step")
        optimizer.zero_grad()
        for _ in range(passes):
            model(torch.ones(3, 4) * (rank + 1) / passes).sum().backward()
        optimizer.synchronize()
        expected = torch.full((2, 4), 3 * (size + 1) / 2)
        assert torch.equal(model.weight.grad, expected)
        with optimizer.skip_synchronize():
            optimizer.step()

    train(elastic.TorchState(model, optimizer))
    assert len(begins) == 2


# ---- Names of Horovod ---------------------------------------------------------------------------


def test_horovods_names(torch, monkeypatch):
    compat = os.path.join(os.path.dirname(hvd.__file__), "..", "compat")
    if not os.path.isdir(compat):
        pytest.skip("the package horovod is not beside this one")
    monkeypatch.setattr(sys, "path", [compat] + sys.path)
    import horovod.torch
    from horovod.common.elastic import ObjectState as common
    from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt as updated
    from horovod.runner.elastic.worker import HostUpdateResult as result
    from horovod.torch.elastic import TorchState, run
    from horovod.torch.elastic.sampler import ElasticSampler
    from horovod.torch.elastic.state import get_handler_registry

    theirs = horovod.torch.elastic
    assert (common, updated, result) == (ObjectState, HostsUpdatedInterrupt, HostUpdateResult)
    assert (theirs.run, theirs.TorchState) == (run, TorchState)
    assert (theirs.sampler.ElasticSampler, theirs.ElasticSampler) == (ElasticSampler,) * 2
    assert HorovodInternalError is hvd.torch.HorovodInternalError
    assert get_handler_registry() is theirs.get_handler_registry()
