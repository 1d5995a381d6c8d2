"""Training by hvd.elastic, of integers, so that sums over any number of ranks are exact: each step
is compared with what a single process computes. `elastic_training.py INTERVAL SLOT@STEP:WORD...`

All ranks commit after every INTERVAL steps, and look for new ranks after the others. WORD is what
the process that is rank SLOT at the start does in that step, unless it was started again:

- kill: it kills itself before the step's allreduce;
- save: it kills itself while it saves its commit after the step;
- commit: it kills itself when it has saved its commit, before the others know;
- sync: it kills itself in the second epoch, as the state is sent (in any step);
- reset: it kills itself in the second epoch, before that (in any step);
- raise: it raises HorovodInternalError by itself;
- notice: it gets a notice that hosts were added;
- hostsN: before the step it writes "localhost:N" into the file that ELASTIC_HOSTS names;
- news: all ranks wait before the step until a rank joins or is lost (name each of them).

Each rank prints where its epochs begin, and the end; rank 0 the longest time from one step to the
next, which is what a loss costs."""
import os
import signal
import sys
import time

import numpy as np

import hvd
import hvd.elastic

STEPS, ELEMENTS, BATCH = 30, 50, 24
SLOT = int(os.environ["RANK"])
IS_NEW = os.environ.get("HVD_RESTART", "0") != "0"
INTERVAL = int(sys.argv[1])
EVENTS = set() if IS_NEW else set(sys.argv[2:])
epochs = []
ends = []  # of steps


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def does(step, word):
    """Does this process do it in this step? Once."""
    event = "%d@%d:%s" % (SLOT, step, word)
    found = event in EVENTS
    EVENTS.discard(event)
    return found


def dies_in_second_epoch(word):
    if len(epochs) == 1 and any(does(step, word) for step in range(STEPS)):
        die()


class Checked(hvd.elastic.ObjectState):
    """Kills this process where the events say so."""

    def save(self):
        super().save()
        if epochs and does(self.step, "commit"):
            die()

    def sync(self):
        dies_in_second_epoch("sync")
        super().sync()


class Value:
    """A value of the state that can kill this process while it is copied."""

    def __deepcopy__(self, memo):
        if epochs and does(state.step, "save"):
            die()
        return Value()


def gradient(weights, step, samples):
    columns = np.arange(ELEMENTS)
    total = np.zeros(ELEMENTS, "int64")
    for sample in samples:
        total += (weights * (sample + 1) + step * 31 + columns) % 1009
    return total


def descend(weights, total):
    return (weights * 3 + total) % 1000003


def alone():
    """The weights after each step of a single process."""
    found = [np.arange(1, ELEMENTS + 1) * 17]
    for step in range(STEPS):
        found.append(descend(found[-1], gradient(found[-1], step, range(BATCH))))
    return found


EXPECTED = alone()


def await_news():
    while True:
        state.check_host_updates()
        time.sleep(0.01)


def change_hosts():
    for count in range(1, 5):
        if does(state.step, "hosts%d" % count):
            path = os.environ["ELASTIC_HOSTS"]
            with open(path + ".new", "w") as file:
                file.write("localhost:%d\n" % count)
            os.rename(path + ".new", path)


def take_step():
    if does(state.step, "kill"):
        die()
    if does(state.step, "raise"):
        raise hvd.elastic.HorovodInternalError("by itself")
    if does(state.step, "notice"):
        state.on_hosts_updated(state.step, hvd.elastic.HostUpdateResult.added)
    change_hosts()
    if does(state.step, "news"):
        await_news()
    own = gradient(state.weights, state.step, range(hvd.rank(), BATCH, hvd.size()))
    state.weights = descend(state.weights, hvd.allreduce(own, hvd.Sum, name="gradient"))
    state.step += 1
    ends.append(time.monotonic())
    np.testing.assert_array_equal(state.weights, EXPECTED[state.step])


@hvd.elastic.run
def train(state, word):
    epochs.append("%d@%d" % (hvd.size(), state.step))
    np.testing.assert_array_equal(state.weights, EXPECTED[state.step])
    while state.step < STEPS:
        take_step()
        if state.step % INTERVAL == 0:
            state.commit()
        else:
            state.check_host_updates()
    return word


def reset():
    resets.append(hvd.size())
    dies_in_second_epoch("reset")


resets = []
hvd.init()
state = Checked(weights=np.zeros(ELEMENTS, "int64"), step=0, value=Value())
if SLOT == 0 and not IS_NEW:
    state.weights = EXPECTED[0].copy()
state.register_reset_callbacks([reset])
assert train(state, word="done") == "done"
print(
    "rank %d of %d, once rank %d: epochs %s, resets %s"
    % (hvd.rank(), hvd.size(), SLOT, " ".join(epochs), resets)
)
if hvd.rank() == 0:
    longest = max([after - end for end, after in zip(ends, ends[1:])] or [0])
    print("at most %.1f ms from step to step" % (longest * 1000))
