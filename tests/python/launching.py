"""Functions that python.bats has hvd.run and hvd.launch call on ranks."""
import os
import signal
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


def end(how):
    hvd.init()
    if hvd.rank() == 1:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(3) if how == "left" else sys.exit(5)
    hvd.barrier()


def environment():
    return os.environ["PYTHONPATH"].split(os.pathsep)[-1], os.environ["HVD_EPOCH"]


def refused(**arguments):
    try:
        hvd.run(environment, **arguments)
    except hvd.InvalidError as error:
        print("refused:", error)


def main(folder):
    for how in ("killed", "left", "exits"):
        try:
            hvd.run(end, args=(how,), np=2)
        except hvd.launch.RunError as error:
            print(how, error.rank, error.exit_status, "failed first: " in str(error))
    print(hvd.run(environment, env={"PYTHONPATH": "/of/caller", "HVD_EPOCH": "7"}))
    refused(np="2")
    refused(np=1.5)
    refused(options="--hvd-fusion=64M")
    refused(env={"COUNT": 1})
    refused(env={"HVD_EPOCH": "x"})
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
