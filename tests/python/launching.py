"""Functions that python.bats has hvd.run and hvd.launch call on ranks."""
import os
import sys

import hvd
import hvd.launch


def total(first, second=0):
    hvd.init()
    print("in rank", hvd.rank())
    return int(hvd.allreduce([first + second + hvd.rank()], op=hvd.Sum)[0]), hvd.rank()


def fail(rank):
    hvd.init()
    if hvd.rank() == rank:
        raise ValueError("a mistake of the function")
    hvd.barrier()


def fail_once(mark):
    hvd.init()
    if hvd.rank() == 0 and not os.path.exists(mark):
        open(mark, "w").close()
        raise RuntimeError("the first time")
    hvd.barrier()
    return hvd.size()


def main(folder):
    print(hvd.run(total, args=(10,), kwargs={"second": 5}, np=3))
    try:
        hvd.run(fail, args=(1,), np=2)
    except hvd.launch.RunError as error:
        print(
            "failed:",
            error.rank,
            "a mistake of the function" in str(error),
            "in fail" in str(error),
        )
    mark = os.path.join(folder, "mark")
    logs = {"nproc_per_node": 2, "log_dir": folder}
    config = hvd.launch.LaunchConfig(**logs, max_restarts=1, run_id="once", tee=True)
    print(hvd.launch.elastic_launch(config, fail_once)(mark))
    config = hvd.launch.LaunchConfig(**logs, run_id="job", tee=True)
    hvd.launch.elastic_launch(config, "echo")("from", "a command")
    config = hvd.launch.LaunchConfig(**logs, run_id="quiet")
    hvd.launch.elastic_launch(config, "echo")("only in a file")
    try:
        hvd.launch.elastic_launch(hvd.launch.LaunchConfig(max_nodes=2), total)(1)
    except ValueError as error:
        print("refused:", error)


if __name__ == "__main__":
    main(sys.argv[1])
