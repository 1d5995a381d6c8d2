"""The job: init again, forks, threads, timeline, stopping, and how errors end a job."""
import gc
import json
import multiprocessing
import os
import signal
import threading
import weakref

import numpy as np
import pytest

import hvd


def test_init_again(rank, size):
    for _ in range(3):
        pending = (
            hvd.allreduce_async(np.ones(3), name="pending") if rank == 0 and size > 1 else None
        )
        hvd.barrier()
        hvd.shutdown()
        assert not hvd.is_initialized()
        if pending is not None:
            with pytest.raises(hvd.ShutdownError):
                pending.wait()
        with pytest.raises(ValueError, match="not initialised"):
            hvd.rank()
        with pytest.raises(hvd.StateError, match="shut down"):
            hvd.allreduce(np.ones(1))
        hvd.init(process_sets=[[0]] if size > 1 else None)
        hvd.init()  # does nothing
        assert hvd.process_set_ids() == [0, 1][:size] and hvd.rank() == rank
        assert hvd.allreduce(np.ones(1), hvd.Sum)[0] == size
        hvd.barrier()
    hvd.shutdown()
    hvd.init()


def test_sentences_name_what_python_has(rank, size):
    with pytest.raises(hvd.InvalidError, match="bools have no average; use hvd.Sum "):
        hvd.allreduce(np.ones(1, bool))
    with pytest.raises(hvd.InvalidError, match="hvd.add_process_set: ranks.0. is %d" % size):
        hvd.add_process_set([size])


def test_members_alone_add_and_remove_a_set(rank, size):
    if size == 1:
        pytest.skip("one rank has the set of all ranks already")
    own = list(range(rank % 2, size, 2))  # of even and of odd ranks, in any order
    before = hvd.process_set_ids()
    for _ in range(2):
        added = hvd.add_process_set(own[::-1], by_members=True)
        assert added.ranks == own and hvd.process_set_ids() == before + [added.process_set_id]
        assert hvd.allreduce(np.full(1, rank), hvd.Sum, process_set=added)[0] == sum(own)
        with pytest.raises(hvd.DuplicateError, match="set %d already has" % added.process_set_id):
            hvd.add_process_set(own, by_members=True)
        assert hvd.remove_process_set(added)
        assert hvd.process_set_ids() == before
    with pytest.raises(hvd.InvalidError, match="rank %d is not one of the ranks" % rank):
        hvd.add_process_set([each for each in range(size) if each != rank], by_members=True)


def test_a_set_of_its_members_is_not_that_of_all_ranks(rank, size):
    if size < 3:
        pytest.skip("a rank that is no member is needed")
    if rank < 2:
        own = hvd.add_process_set([0, 1], by_members=True)
    added = hvd.add_process_set([0, 1])  # by all ranks: another one
    if rank < 2:
        assert own.process_set_id != added.process_set_id
        for each in (own, added):
            assert hvd.allreduce(np.ones(1), hvd.Sum, process_set=each)[0] == 2
        hvd.remove_process_set(own)
        with pytest.raises(hvd.DuplicateError, match="process set %d " % added.process_set_id):
            hvd.add_process_set([0, 1], by_members=True)
    hvd.remove_process_set(added)


def test_members_that_disagree_on_their_set_are_named(rank, size):
    if size < 3:
        pytest.skip("two members and one more rank are needed")
    lists = {0: [0, 1], 1: [0, 1, 2]}
    if rank in lists:
        sentence = "rank {0} has the ranks {1}, rank {2} has {3}; give all members the same"
        texts = {0: "0,1", 1: "0-2( as set 0)?"}  # three ranks are all of the job
        expected = sentence.format(rank, texts[rank], 1 - rank, texts[1 - rank])
        with pytest.raises(hvd.MismatchError, match=expected):
            hvd.add_process_set(lists[rank], by_members=True)
        added = hvd.add_process_set([0, 1], by_members=True)
        hvd.remove_process_set(added)


def test_places(rank, size):
    assert hvd.local_rank() < hvd.local_size() and hvd.cross_rank() < hvd.cross_size()
    assert hvd.is_homogeneous() in (True, False)
    assert hvd.global_process_set.ranks == list(range(size))


def child(queue):
    try:
        hvd.allreduce(np.ones(1))
    except hvd.HvdError as error:
        queue.put(str(error))


def test_forked_worker(rank, size):
    handle = hvd.allreduce_async(np.ones(1000), hvd.Sum, name="around a fork")
    shared = hvd.alloc(10)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=child, args=(queue,))
    worker.start()
    assert "forked from a rank" in queue.get(timeout=60)
    worker.join(60)
    assert worker.exitcode == 0
    assert handle.wait()[0] == size
    shared += 1
    assert hvd.allreduce(shared, hvd.Sum)[0] == size


def spawned_child(queue):
    try:
        hvd.init()
        queue.put("took part")
    except hvd.StateError as error:
        queue.put(str(error))


def test_spawned_worker(rank, size):
    """It has the variables of the rank, and must not take its place."""
    if size == 1:
        return  # it may be a job of its own
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=spawned_child, args=(queue,))
    worker.start()
    said = queue.get(timeout=60)
    worker.join(60)
    assert "of this job is process %d, which has not left it" % os.getpid() in said
    assert worker.exitcode == 0
    assert hvd.allreduce(np.ones(1), hvd.Sum)[0] == size


def test_two_sets_in_threads(rank, size):
    sets = (
        [
            hvd.global_process_set,
            hvd.add_process_set(list(range(size)) if size == 1 else [0, size - 1]),
        ]
        if size > 2
        else [hvd.global_process_set]
    )
    failures = []

    def work(process_set):
        try:
            for i in range(100):
                total = hvd.allreduce(np.full(50, i, "float32"), hvd.Sum, process_set=process_set)
                assert total[0] == i * len(process_set.ranks)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in sets if each.included()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
    hvd.barrier()
    if len(sets) > 1:
        assert hvd.remove_process_set(sets[1])
        assert not hvd.remove_process_set(sets[1])


def test_one_handle_in_two_threads(rank, size):
    """libhvd lets one thread wait; the others get the result all the same."""
    found = []
    handle = hvd.allreduce_async(np.ones(3), hvd.Sum, "for two") if rank == 0 else None
    threads = [
        threading.Thread(target=lambda: found.append(handle.wait()[0]))
        for _ in range(0 if handle is None else 3)
    ]
    for thread in threads:
        thread.start()
    hvd.barrier()
    if rank:
        hvd.allreduce(np.ones(3), hvd.Sum, "for two")
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert found == [size] * len(threads)


def test_others_run_while_one_waits(rank, size):
    """Were the interpreter's lock held, the thread of rank 0 that is to submit could not run."""
    if size == 1:
        pytest.skip("nobody to wait for")
    if rank == 0:
        late = threading.Timer(0.2, lambda: hvd.allreduce(np.ones(1), name="late"))
        late.start()
        hvd.barrier()
        late.join()
    else:
        hvd.allreduce(np.ones(1), name="late")
        hvd.barrier()


def test_stopping(rank):
    assert hvd.should_stop() is False
    if rank == 0:
        hvd.request_stop()
    assert hvd.should_stop() is True


def test_timeline(rank, tmp_path):
    hvd.start_timeline(str(tmp_path))
    with pytest.raises(hvd.StateError):
        hvd.start_timeline(str(tmp_path))
    hvd.allreduce(np.ones(10), name="seen")
    hvd.stop_timeline()
    found = [os.path.join(tmp_path, name) for name in os.listdir(tmp_path)]
    assert any("seen" in json.dumps(json.load(open(path))) for path in found)


def test_dropped_handles_keep_and_release(rank, size):
    """An operation whose handle was dropped keeps its tensor until it is done, and no longer."""

    def submit(i):
        mine = np.full(100, 1.0)
        hvd.allreduce_async(mine, hvd.Sum, "forgotten%d" % i, out=mine)
        return weakref.ref(mine)

    first = [submit(i) for i in range(50)] if rank == 0 else []
    gc.collect()
    assert size == 1 or all(each() is not None and each()[0] == 1 for each in first)
    hvd.barrier()
    others = [submit(i) for i in range(50)] if rank else []
    hvd.barrier()
    for _ in range(50):  # each looks at some of those that were dropped
        hvd.allreduce(np.ones(1))
    assert all(each() is None for each in first + others)


def test_interrupt_reaches_python(rank, size):
    """SIGINT is not lost while the rank waits in libhvd: it is seen when the wait is over."""
    seen = []
    previous = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        while hvd.allreduce(np.array([len(seen)]), hvd.Min, "around a signal")[0] == 0:
            pass
    finally:
        signal.signal(signal.SIGINT, previous)
