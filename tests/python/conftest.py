"""The ranks of a job run these tests together, each test on all ranks at once."""
import os
import sys

import pytest

import hvd


@pytest.fixture(scope="session", autouse=True)
def job(request):
    hvd.init()
    yield
    if hvd.is_initialized() and not request.session.testsfailed:
        hvd.barrier()
    # a rank on which a test failed leaves without waiting, and its end is an error to the others
    if request.session.testsfailed:
        os._exit(1)
    hvd.shutdown()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Say at once what failed: the process is about to end."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        sys.__stderr__.write(
            "rank %s: %s\n%s\n"
            % (os.environ.get("PMIX_RANK", "?"), report.nodeid, report.longreprtext)
        )
        sys.__stderr__.flush()


@pytest.fixture
def rank():
    return hvd.rank()


@pytest.fixture
def size():
    return hvd.size()


@pytest.fixture(scope="module")
def group(job):
    """torch's default group, of the backend hvd."""
    import torch.distributed as dist

    import hvd.distributed  # noqa: F401 it registers the backend

    dist.init_process_group("hvd")
    yield dist.distributed_c10d._get_default_group()
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture
def evens():
    """A process set of the ranks 0, 2, ..."""
    if hvd.size() == 1:
        pytest.skip("a job of one rank has no other sets")
    added = hvd.add_process_set(list(range(0, hvd.size(), 2)))
    yield added
    hvd.barrier()
    hvd.remove_process_set(added)
