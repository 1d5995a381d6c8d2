"""The loop of an elastic job in Python: rank 0 kills itself once, and all ranks train on."""
import os
import signal

import numpy as np

import hvd

STEPS = 50


def begin():
    """Join the job, or its next epoch; another rank may be lost meanwhile."""
    while True:
        try:
            return hvd.init()
        except hvd.RankLostError:
            pass


def leave():
    try:
        hvd.shutdown()
    except hvd.RankLostError:
        pass


def train(state):
    """The state is a sum and the number of steps. Newcomers get that of rank 0, which is older."""
    state[:] = hvd.broadcast(state, 0, name="state")
    dies = os.environ["RANK"] == "0" and os.environ["HVD_RESTART"] == "0"
    while state[1] < STEPS:
        if dies and state[1] == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        state[0] += hvd.allreduce(np.ones(1), hvd.Sum, name="gradient")[0]
        state[1] += 1


def main():
    state = np.zeros(2)
    begin()
    while True:
        try:
            train(state)
            break
        except hvd.RankLostError:
            leave()
            begin()
    place = (hvd.rank(), hvd.size(), os.environ["RANK"])
    print("rank %d of %d, once rank %s: %g" % (place + (state[0],)))
    hvd.shutdown()


main()
