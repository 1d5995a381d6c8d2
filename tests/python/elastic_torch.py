"""examples/train_elastic.py, in which ranks are killed at random points:

    elastic_torch.py PROGRAM SEED DEATHS CALLS OPTION...

So many of the processes that the job began with are killed before one of the first CALLS calls of
functions in training, in Python or from Python, wherever that is."""
import os
import random
import runpy
import signal
import sys

from hvd.torch.elastic import TorchState

program, seed, deaths, calls = sys.argv[1:5]
chance = random.Random(int(seed))
victims = chance.sample(range(int(os.environ["WORLD_SIZE"])), int(deaths))
last_calls = dict((victim, chance.randrange(int(calls))) for victim in victims)
slot = int(os.environ["RANK"])
is_new = os.environ.get("HVD_RESTART", "0") != "0"
own_sync = TorchState.sync
made = 0


def count(frame, event, argument):
    global made
    made += event in ("call", "c_call")
    if made > last_calls[slot]:
        os.kill(os.getpid(), signal.SIGKILL)


def sync(state):
    """Training begins: from now on calls are counted."""
    TorchState.sync = own_sync
    if slot in last_calls and not is_new:
        sys.setprofile(count)
    own_sync(state)


TorchState.sync = sync
sys.path.insert(0, os.path.dirname(program))
sys.argv = [program] + sys.argv[5:]
runpy.run_path(program, run_name="__main__")
