"""Functions that python.bats has hvd.run and hvd.launch call on ranks."""
import os
import signal
import sys

import hvd
import hvd.elastic
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


@hvd.elastic.run
def train(state, victim):
    while state.step < 4:
        hvd.allreduce([1.0], name="step")
        if os.environ["RANK"] == str(victim) and state.step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        state.step += 1
        state.commit()
    return hvd.rank(), hvd.size(), int(os.environ["RANK"])


def lose(victim):
    hvd.init()
    print("begins")
    return train(hvd.elastic.ObjectState(step=0), victim)


def lose_all():
    """Rank 0 fails on its own account, and the other because of that, again and again."""
    hvd.init()
    hvd.barrier()
    if hvd.rank() == 0:
        raise ValueError("again")
    hvd.barrier()


def restarts():
    hvd.init()
    hvd.barrier()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("the first time")
    return os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["TORCHELASTIC_RUN_ID"]


def environment():
    return os.environ["PYTHONPATH"].split(os.pathsep)[-1], os.environ["HVD_EPOCH"]


def refused(**arguments):
    try:
        hvd.run(environment, **arguments)
    except hvd.InvalidError as error:
        print("refused:", error)


def launch(function, *arguments, **config):
    return hvd.launch.elastic_launch(hvd.launch.LaunchConfig(**config), function)(*arguments)


def failure_of(function, *arguments, **config):
    try:
        launch(function, *arguments, **config)
    except hvd.launch.ChildFailedError as error:
        rank, failure = error.get_first_failure()
        assert rank == failure.rank == error.rank and failure.pid > 1
        assert error.exit_status == abs(failure.exitcode) + 128 * (failure.exitcode < 0)
        return rank, failure.exitcode, failure.signal_name(), failure.traceback is not None


def elastic(folder):
    events = []

    def handle(event):
        events.append(event)
        if event["event"] == "rank_lost":
            raise ValueError("a mistake of the handler")

    config = {
        "nproc_per_node": 3,
        "min_np": 2,
        "run_id": "once",
        "role": "trainer",
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0",
        "rdzv_configs": {"timeout": 50, "join_timeout": 40, "last_call_timeout": 30},
        "monitor_interval": 5,
        "log_line_prefix_template": "${role_name}${rank}|",
        "metrics_cfg": {"file": os.path.join(folder, "metrics.prom")},
        "event_handler": handle,
    }
    print("elastic:", launch(lose, 0, **config))
    names = [event["event"] for event in events]
    print("events:", names[0], names[-1], *sorted(set(names[1:-1])), events[0]["run_id"])
    try:
        launch(lose, 0, nproc_per_node=2, min_np=2, rdzv_configs={"join_timeout": 0.2},
               options=["--host-cooldown=1h:1h"])  # fmt: skip
    except hvd.launch.RunError as error:
        print("lacks:", error.exit_status, error)
    print("all again:", failure_of(lose_all, nproc_per_node=2, min_np=1, max_restarts=1))
    print("run:", hvd.run(lose, args=(1,), np=3, min_np=1, max_restarts=1, env={"HVD_EPOCH": "0"}))


def failures():
    print("raised:", failure_of(fail, 1, nproc_per_node=2))
    print("killed:", failure_of(end, "killed", nproc_per_node=2))
    print("counts:", launch(restarts, nproc_per_node=2, max_restarts=1, run_id="again"))
    try:
        launch(total, 1, options=["--hvd-fusion=64Q"])
    except hvd.launch.RunError as error:
        print("whole:", type(error).__name__, error.rank, error)


def refusals():
    for each in (
        {"min_nodes": 2, "max_nodes": 2},
        {"rdzv_endpoint": "192.0.2.1:29500"},
        {"min_np": 2},
        {"nproc_per_node": 4, "max_np": 3},
        {"max_restarts": -1},
        {"rdzv_timeout": 0},
        {"start_method": "fork"},
        {"tee": 1},
        {"metrics_cfg": {"period": "1"}},
        {"event_handler": "console"},
        {"event_handler": print, "options": ["--events=file"]},
    ):
        try:
            launch(total, 1, **each)
        except ValueError as error:
            print("refused:", error)


def main(folder):
    elastic(folder)
    failures()
    refusals()
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
    print("one node of two:", launch(total, 1, max_nodes=2))


if __name__ == "__main__":
    main(sys.argv[1])
