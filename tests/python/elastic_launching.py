"""horovod.run of a function that trains elastic, loses a rank and grows, or gets another one."""
import os
import signal

import horovod
import numpy as np

import hvd
import hvd.elastic


@hvd.elastic.run
def train(state, victim):
    while state.step < 5:
        hvd.allreduce(np.ones(1), name="step")
        if os.environ["RANK"] == str(victim) and state.step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        state.step += 1
        state.commit()
    names = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_ELASTIC", "RANK")
    return [hvd.rank()] + [os.environ[each] for each in names]


@hvd.elastic.run
def wait_for_others(state, size):
    while hvd.size() < size:
        state.check_host_updates()
    return hvd.rank(), hvd.size()


def grow(size):
    hvd.init()
    return wait_for_others(hvd.elastic.ObjectState(step=0), size)


def begin(victim):
    hvd.init()
    return train(hvd.elastic.ObjectState(step=0), victim)


if __name__ == "__main__":
    print(horovod.run(begin, (0,), np=3, min_np=2, max_np=3, elastic_timeout=50))
    print(horovod.run(grow, (3,), np=2, max_np=3, host_discovery_script="echo localhost", slots=4))
    print(horovod.run(begin, (0,), np=2, min_np=2, cooldown_range=(1, 5)))
