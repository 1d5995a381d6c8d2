"""DistributedDataParallel in an elastic job:

    elastic_ddp.py plain|loop|run STEPS SLOT@STEP...

With "plain" nothing is caught; with "loop" the program catches losses by itself; with "run"
hvd.elastic.run does, and the state is committed after every second step. The process that the job
began with in this slot is killed before that step. All ranks train with the same data, so the
parameters at the end must be those of a single process, whatever ranks were lost or joined. Each
epoch and the end print a line."""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hvd.distributed
from hvd.errors import RankLostError, behind
from hvd.torch import elastic

kind, steps = sys.argv[1], int(sys.argv[2])
deaths = dict((int(slot), int(step)) for slot, step in (each.split("@") for each in sys.argv[3:]))
is_new = os.environ.get("HVD_RESTART", "0") != "0"
death = None if is_new else deaths.get(int(os.environ["RANK"]))
inputs = torch.arange(12.0).reshape(3, 4) / 10


def make():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def learn(model, optimizer):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


def tell(step):
    print("rank %d of %d at %d" % (dist.get_rank(), dist.get_world_size(), step), flush=True)


def form():
    """The default group, and another one, which must end with it."""
    hvd.distributed.reform()
    group = dist.new_group([0, dist.get_world_size() - 1])
    if dist.get_rank() in (0, dist.get_world_size() - 1):
        dist.all_reduce(torch.ones(1), group=group)


def step_once(step, parallel, optimizer):
    if step == death:
        os.kill(os.getpid(), signal.SIGKILL)
    learn(parallel, optimizer)


def train_in_loop(model, optimizer):
    step = 0
    while step < steps:
        try:
            form()
            found = [step]
            dist.broadcast_object_list(found, 0)
            step = found[0]
            parallel = DistributedDataParallel(model)
            tell(step)
            while step < steps:
                step_once(step, parallel, optimizer)
                step += 1
        except RuntimeError as error:
            if kind == "plain" or not isinstance(behind(error), RankLostError):
                raise


@elastic.run
def train_by_run(state):
    form()
    parallel = DistributedDataParallel(state.model)
    tell(state.step)
    while state.step < steps:
        step_once(state.step, parallel, state.optimizer)
        state.step += 1
        if state.step % 2 == 0:
            state.commit()


model, optimizer = make()
if kind == "run":
    train_by_run(elastic.TorchState(model, optimizer, step=0))
else:
    train_in_loop(model, optimizer)
alone, its_optimizer = make()
for _ in range(steps):
    learn(alone, its_optimizer)
for found, expected in zip(model.parameters(), alone.parameters()):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
print("rank %d ends right" % dist.get_rank(), flush=True)
