"""Measures hvd from Python, with torch's gloo and, where it is installed, Horovod beside it:
python3 -m hvd.bench.

Alone it starts two ranks by hvdrun; under hvdrun or srun it measures the ranks of that job. Each
row is the median over rounds of the time of rank 0, all ranks having begun together; what is
compared takes turns in each round. hvdbench, which does the same from C, gets its turn after some
rounds each, in a job of its own, while the ranks of this one sleep."""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import hvd
from hvd import _programs

BUCKET_BYTES = 25 << 20  # of DistributedDataParallel
BESIDE_ROUNDS = 5


def resnet50_shapes() -> List[Tuple[int, ...]]:
    """The shapes of ResNet-50's 161 parameters."""
    shapes: List[Tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            after = 4 * width
            for shape in ((width, before, 1, 1), (width, width, 3, 3), (after, width, 1, 1)):
                shapes += [shape, (shape[0],), (shape[0],)]
            if block == 0:
                shapes += [(after, before, 1, 1), (after,), (after,)]
            before = after
    return shapes + [(1000, 2048), (1000,)]


def measure(
    cases: Dict[str, Callable[[], Any]], rounds: int, calls: int = 1, beside: Any = None
) -> Dict[str, float]:
    """The median time of a call in microseconds, by case. [beside] may measure something itself: it
    returns such a time by its name, and is called after each BESIDE_ROUNDS rounds."""
    times: Dict[str, List[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
    for i in range(rounds):
        for name, case in cases.items():
            hvd.barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                case()
            times[name].append((time.perf_counter() - begin) / calls * 1e6)
        if beside is not None and ((i + 1) % BESIDE_ROUNDS == 0 or i + 1 == rounds):
            for name, microseconds in beside().items():
                times.setdefault(name, []).append(microseconds)
    return {name: statistics.median(each) for name, each in times.items()}


# ---- Small tensors, numpy -----------------------------------------------------------------------


def small_cases() -> Dict[str, Callable[[], Any]]:
    import numpy

    one = numpy.zeros(1, "float32")
    return {"hvd": lambda: hvd.allreduce(one, hvd.Sum, "bench.4bytes", out=one)}


def many_cases() -> Dict[str, Callable[[], Any]]:
    import numpy

    arrays = [numpy.zeros(256, "float32") for _ in range(1000)]
    names = ["bench.many.%d" % i for i in range(len(arrays))]

    def grouped() -> None:
        hvd.grouped_allreduce(arrays, hvd.Sum, "bench.group", outs=arrays)

    def single() -> None:
        handles = [
            hvd.allreduce_async(array, hvd.Sum, name, out=array)
            for array, name in zip(arrays, names)
        ]
        for handle in handles:
            handle.wait()

    return {"hvd, one group": grouped, "hvd, one by one": single}


# ---- Gradients, torch ---------------------------------------------------------------------------


def optimizer_case(settings: Dict[str, Any]) -> Callable[[], Any]:
    """The synchronisation of DistributedOptimizer, once backward has computed all gradients."""
    import torch

    import hvd.torch

    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in resnet50_shapes()]
    named = [("bench%d.%s" % (len(settings), i), each) for i, each in enumerate(parameters)]
    optimizer = hvd.torch.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=0.1), named, **settings
    )
    gradients = list(optimizer._gradients.values())[::-1]

    def backward(gradient: Any) -> None:
        gradient.before_backward()
        if gradient.parameter.grad is None:
            gradient.parameter.grad = torch.ones_like(gradient.parameter)
        gradient.after_backward()

    def synchronise() -> None:
        for gradient in gradients:
            backward(gradient)
        optimizer.synchronize()

    return synchronise


def buckets(make: Callable[[int], Any]) -> List[Any]:
    """The buckets in which DistributedDataParallel has these gradients."""
    bytes_left = sum(4 * math.prod(shape) for shape in resnet50_shapes())
    made = []
    while bytes_left > 0:
        made.append(make(min(bytes_left, BUCKET_BYTES) // 4))
        bytes_left -= BUCKET_BYTES
    return made


def bucket_case() -> Callable[[], Any]:
    """What the backend hvd of torch.distributed does with them."""
    own = [(bucket, "bench.bucket%d" % i) for i, bucket in enumerate(buckets(hvd.alloc_tensor))]

    def all_buckets() -> None:
        handles = [hvd.allreduce_async(each, hvd.Sum, name, out=each) for each, name in own]
        for handle in handles:
            handle.wait()

    return all_buckets


def gloo_cases() -> Dict[str, Callable[[], Any]]:
    """The same by torch's gloo, in the buckets of DistributedDataParallel, and one small tensor."""
    import datetime

    import torch
    import torch.distributed as dist

    from hvd._rendezvous import make_store

    store = make_store(datetime.timedelta(seconds=60))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if hvd.cross_size() == 1 else "")
    dist.init_process_group("gloo", store=store, rank=hvd.rank(), world_size=hvd.size())
    own = buckets(torch.zeros)
    one = torch.zeros(1)

    def all_buckets() -> None:
        works = [dist.all_reduce(bucket, async_op=True) for bucket in own]
        for work in works:
            work.wait()

    return {"gradients": all_buckets, "small": lambda: dist.all_reduce(one)}


def gradient_cases(gloo: Optional[Dict[str, Callable]]) -> Dict[str, Callable[[], Any]]:
    cases = {
        "hvd.torch": optimizer_case({}),
        "hvd.torch, gradients elsewhere": optimizer_case({"gradients_in_window": False}),
        "hvd, DDP's buckets": bucket_case(),
    }
    if gloo is not None:
        cases["torch gloo, DDP's buckets"] = gloo["gradients"]
    return cases


def hvdbench_case(words: Sequence[str], field: str, row: str) -> Optional[Callable[[], Any]]:
    """A row of hvdbench, whose report has it as [field], with as many ranks on the cores of this
    job's; None on several nodes."""
    cores = set().union(*hvd.allgather_object(os.sched_getaffinity(0)))
    if hvd.cross_size() > 1:
        return None
    command = [_programs.find("hvdrun"), "--launcher=local", "--no-prefix", "-n", str(hvd.size())]
    command += [_programs.find("hvdbench"), *words, "--no-mpi", "--json"]
    # hvdrun warns a task that has others beside it, as each might start a job; here one does
    alone = dict(os.environ, WORLD_SIZE="1", SLURM_STEP_NUM_TASKS="1")

    def case() -> Dict[str, float]:
        found: Dict[str, float] = {}
        if hvd.rank() == 0:
            own = os.sched_getaffinity(0)
            os.sched_setaffinity(0, cores)
            report = json.loads(subprocess.check_output(command, env=alone))
            os.sched_setaffinity(0, own)
            found[row] = report[field]
        hvd.barrier()
        return found

    return case


# ---- The report ---------------------------------------------------------------------------------


def import_times() -> Dict[str, float]:
    """How long import hvd takes in fresh interpreters that have imported numpy, in microseconds, as
    compiled by the first one: the time that passes, and that of the processor."""
    code = (
        "import time, numpy; a = time.perf_counter(), time.process_time(); import hvd\n"
        "print(time.perf_counter() - a[0], time.process_time() - a[1])"
    )
    keeps = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    runs = [subprocess.check_output([sys.executable, "-c", code], env=keeps) for _ in range(6)][1:]
    passed, used = zip(*[map(float, run.split()) for run in runs])
    return {
        "hvd": statistics.median(passed) * 1e6,
        "hvd, time of the processor": statistics.median(used) * 1e6,
    }


def show(title: str, times: Dict[str, float]) -> None:
    """Print the rows; the last column is how long the first one takes, measured by this one."""
    if hvd.rank() == 0:
        print(title)
        first = next(iter(times.values()))
        for name, microseconds in times.items():
            print(
                "    %-36s %12.1f us %8.2f x" % (name, microseconds, first / microseconds),
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m hvd.bench", description=__doc__)
    parser.add_argument("-n", "--ranks", type=int, default=2, help="ranks to start, outside a job")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if importlib.util.find_spec("numpy") is None:
        parser.error("%s has no numpy, which holds the tensors; install it" % sys.executable)
    if not any(os.environ.get(each) for each in ("PMIX_RANK", "WORLD_SIZE")):
        command = [_programs.find("hvdrun"), "--launcher=local", "--no-prefix"]
        command += ["-n", str(options.ranks), "--"]
        command += [sys.executable, "-m", "hvd.bench", "--rounds", str(options.rounds)]
        os.environ["PYTHONPATH"] = os.pathsep.join(
            sys.path[:1] + [os.environ.get("PYTHONPATH", "")]
        )
        os.execv(command[0], command)
    hvd.init()
    try:
        import torch

        torch.set_num_threads(1)
        gloo = gloo_cases() if torch.distributed.is_available() else None
    except ImportError:
        torch = gloo = None
    if hvd.rank() == 0:
        print("hvd %s, %d ranks on %d nodes" % (hvd.version(), hvd.size(), hvd.cross_size()))
    small = small_cases()
    if gloo is not None:
        small["torch gloo"] = gloo["small"]
    show("allreduce of 4 bytes", measure(small, options.rounds, 500))
    from_c = hvdbench_case(["small"], "hvd_us", "hvdbench, from C")
    show("1000 tensors of 1 KiB", measure(many_cases(), options.rounds, beside=from_c))
    if torch is not None:
        words = ["allreduce", "--rounds=%d" % BESIDE_ROUNDS]
        from_c = hvdbench_case(words, "hvd_alloc_us", "hvdbench's hvd-alloc, from C")
        times = measure(gradient_cases(gloo), options.rounds, beside=from_c)
        show("ResNet-50's 161 gradients, 97.5 MiB", times)
    if hvd.rank() == 0:
        show("import hvd", import_times())
    hvd.barrier()
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
