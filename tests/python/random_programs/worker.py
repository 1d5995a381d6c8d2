"""One rank of a job that runs programs: worker.py SIZE FIRST COUNT TIMEOUT FACES STEPS."""
import os
import sys
import traceback
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import hvd  # noqa: E402
from random_programs.disorder import Signals  # noqa: E402
from random_programs.plan import Plan  # noqa: E402
from random_programs.watchdog import Watchdog  # noqa: E402
from random_programs.world import World  # noqa: E402


def run_program(plan, chosen, watchdog):
    """Run one program, or only those of its steps that are [chosen]."""
    world = World(plan)
    watchdog.at("seed %d, before its steps" % plan.seed)
    world.open()
    with Signals(plan.signals):
        for i, step in enumerate(plan.steps):
            if chosen is None or i in chosen:
                watchdog.at("seed %d, step %d: %s" % (plan.seed, i, step))
                step.run(world)
    watchdog.at("seed %d, after its steps" % plan.seed)
    world.close()


def main():
    warnings.simplefilter("ignore")  # of names in torch that are old or new
    size, first, count = map(int, sys.argv[1:4])
    faces = sys.argv[5].split(",")
    chosen = None if sys.argv[6] == "all" else set(map(int, sys.argv[6].split(",")))
    for each in faces:
        Plan.about(each)  # imports take their time
    watchdog = Watchdog(float(sys.argv[4]))
    try:
        for seed in range(first, first + count):
            run_program(Plan(seed, size, faces), chosen, watchdog)
        watchdog.at("the end")
        hvd.shutdown()
    except BaseException:
        watchdog.failed(traceback.format_exc())
    print("did all")


main()
