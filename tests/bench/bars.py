#!/usr/bin/env python3
"""bars.py: measure hvd's bars, the performance goals on two cores, and say which are met.

A bar is a few commands, and limits on the numbers that they print as JSON. BENCHMARKS.md describes the bars, and has
the output of --list. Nothing but Python's standard library is needed. It runs programs of the build tree: that in
HVD_BUILD, or else the current directory.
"""

import argparse
import ctypes
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys

BUILD = os.environ.get("HVD_BUILD", os.getcwd())
PROGRAMS = {
    "hvdrun": os.path.join(BUILD, "bin/hvdrun"),
    "hvdbench": os.path.join(BUILD, "bin/hvdbench"),
    "hvdbench_plain": os.path.join(BUILD, "tests/bench/hvdbench_plain"),
    "parts": os.path.join(BUILD, "tests/bench/parts"),
    "two-nodes": os.path.join(os.path.dirname(os.path.abspath(__file__)), "two-nodes"),
}
COMMAND_SECONDS = 900
GRACE_SECONDS = 10  # for a launcher to end its ranks
NO_NODES = 3  # the exit status of two-nodes if it cannot create its nodes

# ---- What is measured, and what it must reach


@dataclasses.dataclass
class Limit:
    """The highest value that a number may have."""

    title: str
    field: str
    most: float = None  # the bar is met up to this value; None: the number is shown, but not judged
    stretch: float = None  # a value that would be better still
    unit: str = "times"  # or "us" or "count"
    by: str = None  # divide the field by this one
    above: str = None  # subtract this one
    # the largest of all commands divided by the smallest, each relative to the first command of its turn
    spread: bool = False


@dataclasses.dataclass
class Bar:
    name: str
    title: str
    commands: list
    limits: list
    turns: int = 1  # how often the commands run in turn; the median counts


# Between ranks of one node the bars hold for tensors in memory of hvd_alloc; those of malloc are only shown.
BY_MPI = Limit("time / best MPI, hvd_alloc memory", "hvd_alloc_us", by="mpi_best_us", most=0.7)
BY_MEMCPY = Limit("time / memcpy, hvd_alloc memory", "hvd_alloc_us", by="memcpy_us", most=1.2, stretch=1.0)
MALLOC_BY_MPI = Limit("time / best MPI, malloc memory", "hvd_us", by="mpi_best_us")
MALLOC_BY_MEMCPY = Limit("time / memcpy, malloc memory", "hvd_us", by="memcpy_us")
NODES_BY_MPI = Limit("time / best MPI", "hvd_us", by="mpi_best_us", most=1.0)
RING_BY_MPI = Limit("time / best MPI", "hvd_us", by="mpi_best_us", most=0.8)
HIER_BY_MPI = Limit("time / best MPI", "hvd_us", by="mpi_best_us", most=0.6)
MODEL_LIMITS = [BY_MPI, BY_MEMCPY, MALLOC_BY_MPI, MALLOC_BY_MEMCPY]


def time_limit(most, stretch):
    return Limit("time", "hvd_us", unit="us", most=most, stretch=stretch)


def in_job(ranks, case):
    return f"hvdrun --launcher=local -n {ranks} --no-prefix hvdbench {case}"


BARS = [
    Bar("resnet50", "ResNet-50: 161 tensors, 97.5 MiB, 2 ranks", [in_job(2, "allreduce --model=resnet50")], MODEL_LIMITS),
    Bar("bert-large", "BERT-large: 398 tensors, 1.25 GiB, 2 ranks", [in_job(2, "allreduce --model=bert-large")], MODEL_LIMITS),
    Bar("crowded", "ResNet-50, 4 ranks on 2 cores", [in_job(4, "allreduce --model=resnet50")], [BY_MPI, MALLOC_BY_MPI]),
    Bar("small", "1000 tensors of 1 KiB, 2 ranks", [in_job(2, "small --tensors=1000 --bytes=1K")], [time_limit(800, 300)]),
    Bar("latency", "4 bytes, waiting for each, 2 ranks", [in_job(2, "latency --bytes=4")], [time_limit(20, 3)]),
    Bar("latency-crowded", "4 bytes, waiting for each, 4 ranks on 2 cores", [in_job(4, "latency --bytes=4")], [time_limit(200, 20)]),
    Bar("nodes-ring", "ResNet-50, 2 nodes with a rank each, by TCP",
        ["two-nodes 1 env HVD_BACKENDS=tcp hvdbench allreduce --model=resnet50"], [RING_BY_MPI]),
    Bar("nodes", "ResNet-50, 2 nodes with 2 ranks each, as hvd chooses",
        ["two-nodes 2 hvdbench allreduce --model=resnet50"], [HIER_BY_MPI]),
    Bar("nodes-tcp", "ResNet-50, 2 nodes with 2 ranks each, by TCP",
        ["two-nodes 2 env HVD_BACKENDS=hier-tcp hvdbench allreduce --model=resnet50"], [NODES_BY_MPI]),
    Bar("nodes-mpi", "ResNet-50, 2 nodes with 2 ranks each, by MPI",
        ["two-nodes 2 env HVD_BACKENDS=hier-mpi hvdbench allreduce --model=resnet50"], [NODES_BY_MPI]),
    Bar("idle", "5 s without work, 2 ranks", [in_job(2, "idle --seconds=5")],
        [Limit("wake-ups per rank", "wakes", unit="count", most=0),
         Limit("CPU time per rank", "cpu_us", unit="us", most=1000)]),
    Bar("negotiate", "agreement of 64, 1024 and 16384 simulated ranks",
        ["parts negotiate --ranks=64 --rounds=50",
         "parts negotiate --ranks=1024 --rounds=50",
         "parts negotiate --ranks=16384 --rounds=5"],
        [Limit("messages per rank - tree radix", "messages", unit="count", above="radix", most=1),
         Limit("bytes at rank 0, max / min", "first_root_bytes", spread=True, most=1)]),
    Bar("launch", "start of 2 ranks", ["hvdbench launch --ranks=2"],
        [Limit("until hvd_init / until MPI_Init", "hvd_us", by="mpi_us", most=1),
         Limit("hvdrun true / mpirun true", "hvdrun_exit_us", by="mpirun_exit_us", most=1)]),
    Bar("honest", "MPI beside hvd as fast as without it, 2 ranks",
        [in_job(2, "allreduce --model=resnet50 --rounds=10"),
         "mpirun --oversubscribe --bind-to core -np 2 hvdbench_plain resnet50 10"],
        [Limit("best MPI, slower / faster job", "mpi_best_us", spread=True, most=1.1)], turns=15),
]

# ---- Running commands


class Failed(Exception):
    """A command failed: bars that need it are missed."""


class NotRun(Exception):
    """This machine or build cannot run it: bars that need it are not run."""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: launchers then end their ranks


def run_process(words):
    """Run a command to its end. Returns its exit status, output, and the first line that its errors have."""
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", preexec_fn=die_with_parent)
    except OSError as error:
        raise NotRun(f"{os.path.basename(words[0])} was not found: {error.strerror}") from None
    try:
        output, errors = process.communicate(timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise Failed(f"{os.path.basename(words[0])} had not ended after {COMMAND_SECONDS} s") from None
    return process.returncode, output, errors.lstrip("-\n").split("\n")[0]


def run_command(command):
    """Run a command of a bar. Returns the JSON object that it wrote."""
    words = [PROGRAMS.get(word, word) for word in command.split()] + ["--json"]
    name = command.split()[0]
    plain = PROGRAMS["hvdbench_plain"]
    if plain in words and not os.access(plain, os.X_OK):
        raise NotRun(f"{plain} is not there: hvd was built without MPI")
    status, output, error = run_process(words)
    if status == 127:
        raise NotRun(f"{name} was not found" + (f": {error}" if error else ""))
    if status != 0:
        why = f"{name} exited with status {status if status > 0 else 128 - status}" + (f": {error}" if error else "")
        raise NotRun(why) if status == NO_NODES else Failed(why)
    return read_record(output)


def read_record(output):
    try:
        record = json.loads(output)
    except ValueError as error:
        raise Failed(f"no JSON object was written, but: {output[:60]} ({error})") from None
    if not isinstance(record, dict):
        raise Failed(f"no JSON object was written, but: {output[:60]}")
    return record


# ---- Numbers and verdicts


def find(record, field):
    number = record.get(field)
    if not isinstance(number, (int, float)):
        if field.startswith("mpi") and "no_mpi" in record:
            raise NotRun("MPI was left out: " + record["no_mpi"])
        raise NotRun("nothing was said of " + field)
    return number


def measure_once(limit, record, first):
    """The number of one command in one turn. A spread is relative to the turn's first command, which cancels drift."""
    number = find(record, limit.field)
    if limit.above is not None:
        number -= find(record, limit.above)
    divisor = find(record, limit.by) if limit.by else find(first, limit.field) if limit.spread else 1
    if divisor == 0:
        raise NotRun("there is no number for " + limit.title)
    return number / divisor


def measure(limit, turns):
    """The number of a limit in one run. [turns] has a list of the commands' records for each turn."""
    numbers = [statistics.median(measure_once(limit, turn[i], turn[0]) for turn in turns) for i in range(len(turns[0]))]
    return max(numbers) / min(numbers) if limit.spread else max(numbers)


VERDICTS = ["-", "stretch", "yes", "not run", "no"]  # from best to worst; the worst of several counts


def worst(verdicts):
    return max(verdicts, key=VERDICTS.index, default="-")


def judge(limit, number):
    if limit.most is None:
        return "-"
    if not number <= limit.most:  # so that NaN does not meet it
        return "no"
    return "stretch" if limit.stretch is not None and number <= limit.stretch else "yes"


class Result:
    """What was seen of a limit in all runs. After a run that gave no number, why says the reason."""

    def __init__(self, limit):
        self.limit, self.seen, self.verdicts, self.why = limit, [], [], ""

    def add(self, turns):
        self.seen.append(measure(self.limit, turns))
        self.verdicts.append(judge(self.limit, self.seen[-1]))

    def fail(self, error):
        self.why = str(error)
        if self.limit.most is not None:
            self.verdicts.append("not run" if isinstance(error, NotRun) else "no")

    @property
    def met(self):
        return worst(self.verdicts)


def run_bar(bar, runs):
    """Run a bar. Returns the results of its limits, and the latency between the cores in each run, if it is known."""
    results = [Result(limit) for limit in bar.limits]
    lines_ns = []
    for _ in range(runs):
        wanted = [result for result in results if not result.why]
        if not wanted:
            break
        try:
            turns = [[run_command(command) for command in bar.commands] for _ in range(bar.turns)]
        except (Failed, NotRun) as error:
            for result in wanted:
                result.fail(error)
            continue
        lines_ns.append(turns[0][0].get("line_ns"))
        for result in wanted:
            try:
                result.add(turns)
            except NotRun as error:
                result.fail(error)
    return results, lines_ns


# ---- Output


def time_text(us):
    return f"{us:.2f} us" if us < 1000 else f"{us / 1000:.2f} ms" if us < 1000000 else f"{us / 1000000:.3f} s"


def number_text(limit, number):
    if number is None:
        return "-"
    return {"us": time_text, "times": "{:.3f} x".format, "count": "{:.0f}".format}[limit.unit](number)


def show_row(title, columns, end=""):
    print(f"  {title:34}" + "".join(f"  {column:>10}" for column in columns) + end, flush=True)


def show_bar(bar):
    print(f"{bar.name}: {bar.title}")
    for command in bar.commands:
        print(f"  $ {command}", flush=True)


def show_limit(limit, result=None, runs=0):
    seen = (result.seen if result else []) + [None] * runs
    columns = [number_text(limit, number) for number in seen[:runs] + [limit.most, limit.stretch]]
    show_row(limit.title, columns, f"  {result.met}" if result else "")
    if result and result.why:
        print(f"    {result.why}", flush=True)


def show_results(bar, results, lines_ns, runs):
    for result in results:
        show_limit(result.limit, result, runs)
    show_row("core-to-core cache line round trip", ["-" if ns is None else f"{ns:.0f} ns" for ns in lines_ns])


def show_json(bar, results, lines_ns, version):
    for result in results:
        fields = {"case": "bars", "bar": bar.name, "version": version, "limit": result.limit.title, "seen": result.seen,
                  "most": result.limit.most, "stretch": result.limit.stretch, "met": result.met, "line_ns": lines_ns,
                  "why": result.why or None}
        print(json.dumps({key: value for key, value in fields.items() if value is not None}), flush=True)


# ---- The command line


def take_two_cores():
    """Restrict this process and its commands to two cores, if possible no threads of one. Returns them."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("bars: the bars are those of two cores, but this process may use only one; they cannot be run")

    def threads(cpu):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                return file.read()
        except OSError:
            return cpu

    cores = cpus[0], next((cpu for cpu in cpus if threads(cpu) != threads(cpus[0])), cpus[1])
    os.sched_setaffinity(0, cores)
    return cores


def prepare():
    """Set up what all bars need. Returns the version of hvd, and the cores."""
    for mark in ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        if mark in os.environ:
            sys.exit(f"bars: it starts ranks itself, but is one ({mark} is set); run it without hvdrun, srun or mpirun")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.setdefault("HVD_MODULE_PATH", f"{BUILD}/pmix_shim/.libs:{BUILD}/core/.libs")
    # containers often have no other user than root
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    try:
        version = run_process([PROGRAMS["hvdbench"], "--version"])[1].split()[-1]
    except NotRun as error:
        sys.exit(f"bars: {error}; start it in the folder where hvd was built, or set HVD_BUILD")
    return version, take_two_cores()


def bars_named(text):
    names = text.split(",")
    for name in names:
        if name not in [bar.name for bar in BARS]:
            raise argparse.ArgumentTypeError(
                f'{text}: there is no bar "{name}"; expected some of ' + ", ".join(bar.name for bar in BARS))
    return [bar for bar in BARS if bar.name in names]


def parse(words):
    parser = argparse.ArgumentParser(prog="bars", description="Measure hvd's bars, and say which are met.", allow_abbrev=False)
    parser.add_argument("--runs", type=int, default=3, choices=range(1, 10), metavar="N",
                        help="runs of each bar, 1 to 9, all of which have to meet it (default: 3)")
    parser.add_argument("--only", type=bars_named, default=BARS, metavar="NAMES", help="some of the bars, such as: small,latency")
    parser.add_argument("--list", action="store_true", help="show the bars and their commands, and run nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object a line in place of a table")
    return parser.parse_args(words)


def sum_up(met, quiet):
    """[met] has a verdict for each bar. Returns the exit status."""
    good = [name for name, verdict in met.items() if verdict in ("yes", "stretch")]
    if len(good) == len(met):
        if not quiet:
            print(f"all {len(met)} bar{' is' if len(met) == 1 else 's are'} met in all runs")
        return 0
    text = f"bars: {len(good)} of {len(met)} bars are met"
    for title, verdict in (("missed", "no"), ("not run", "not run")):
        names = [name for name in met if met[name] == verdict]
        text += f"; {title}: " + ", ".join(names) if names else ""
    print(text, file=sys.stderr)
    return 1


def main(words):
    options = parse(words)
    runs = 0 if options.list else options.runs
    met = {}
    if not options.list:
        version, cores = prepare()
        if not options.json:
            print(f"bars: {runs} run{'s' * (runs > 1)} on cores {cores[0]} and {cores[1]}, hvd {version}")
    if options.list or not options.json:
        show_row("", [f"run {run + 1}" for run in range(runs)] + ["bar", "stretch"], "" if options.list else "  met")
    for bar in options.only:
        if options.list or not options.json:
            show_bar(bar)
        if options.list:
            for limit in bar.limits:
                show_limit(limit)
            continue
        results, lines_ns = run_bar(bar, runs)
        met[bar.name] = worst(result.met for result in results)
        if options.json:
            show_json(bar, results, lines_ns, version)
        else:
            show_results(bar, results, lines_ns, runs)
    return 0 if options.list else sum_up(met, options.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
