#!/usr/bin/env bats
# python.bats: the Python package. pytest runs the tests of tests/python on 1, 2 and 3 ranks, all together.

# shellcheck disable=SC2030,SC2031 # each test has variables of its own

bats_require_minimum_version 1.5.0
load setup
load python

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
    need_python numpy pytest
    export PYTHONPATH=$HVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
}

# on N FILE...: run these files of tests/python on N ranks
on() {
    local ranks=$1
    shift
    run timeout -k 5 400 "$hvdrun" -n "$ranks" "$PYTHON" -m pytest -q -x --tb=short --color=no -p no:cacheprovider \
        --rootdir="$HVD_SOURCE/tests/python" "${@/#/$HVD_SOURCE/tests/python/}"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "pip installs the package without a network, and it finds libhvd by HVD_LIBRARY" {
    need_python pip
    cp -r "$HVD_SOURCE/python" "$BATS_TEST_TMPDIR/source"
    run "$PYTHON" -m pip install --quiet --no-index --no-deps --target="$BATS_TEST_TMPDIR/there" "$BATS_TEST_TMPDIR/source"
    echo "$output"
    [ "$status" -eq 0 ]
    cd "$BATS_TEST_TMPDIR"
    export PYTHONPATH=$BATS_TEST_TMPDIR/there HVD_LIBRARY=$HVD_BUILD/core/.libs/libhvd.so.0
    run "$PYTHON" -c 'import hvd; hvd.init(); print(hvd.__file__, hvd.allreduce([2.5])[0])'
    [ "$output" = "$BATS_TEST_TMPDIR/there/hvd/__init__.py 2.5" ]
    HVD_LIBRARY=/nowhere/libhvd.so run "$PYTHON" -c 'import hvd'
    has 'ImportError: hvd: libhvd cannot be opened (/nowhere/libhvd.so: '
    has 'set HVD_LIBRARY to its file'
}

@test "torch that reads the entry point of the installed package knows the backend without an import" {
    need_python torch pip
    cd "$BATS_TEST_TMPDIR"
    cp -r "$HVD_SOURCE/python" source
    "$PYTHON" -m pip install --quiet --no-index --no-deps --target=there ./source
    export PYTHONPATH=$PWD/there HVD_LIBRARY=$HVD_BUILD/core/.libs/libhvd.so.0
    # torch 2.5 calls the functions of the group torch.backends at the end of import torch
    cat >program.py <<'END'
import importlib.metadata, sys
import torch, torch.distributed as dist
if "hvd_torch_backend" not in sys.modules:
    for each in importlib.metadata.distribution("hvd").entry_points:
        if each.group == "torch.backends":
            each.load()()
assert "hvd" not in sys.modules
from torch.distributed import init_process_group
for _ in range(2):
    init_process_group("hvd")
    ones = torch.ones(3)
    dist.all_reduce(ones)
    print(dist.get_backend(), int(ones[0]))
    dist.destroy_process_group()
END
    run timeout -k 5 60 "$hvdrun" -n 2 --no-prefix "$PYTHON" program.py
    [ "$status" -eq 0 ]
    [ "$(grep -c '^hvd 2$' <<<"$output")" = 4 ]
    HVD_LIBRARY=/nowhere/libhvd.so run "$PYTHON" -c 'import torch, hvd_torch_backend; hvd_torch_backend.register(); print("works")'
    has works
}

@test "hvd.torch and horovod.torch register the backend of torch.distributed, and load without torch.distributed" {
    need_python torch
    for module in hvd.torch horovod.torch; do
        PYTHONPATH=$HVD_SOURCE/python/compat:$PYTHONPATH run timeout -k 5 60 "$hvdrun" -n 2 --no-prefix "$PYTHON" -c "
import $module, torch, torch.distributed as dist
dist.init_process_group('hvd')
ones = torch.ones(3)
dist.all_reduce(ones)
print(dist.get_backend(), int(ones[0]))"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^hvd 2$' <<<"$output")" = 2 ]
    done
    run "$PYTHON" -c 'import sys, torch.distributed as dist
dist.is_available = lambda: False
import hvd.torch
print("hvd.distributed" in sys.modules)'
    [ "$output" = False ]
}

@test "an exception on one rank is the first failure, and the others are told which rank" {
    # hvdrun ends the other rank, which need not have come to its sentence by then
    run timeout -k 5 60 "$hvdrun" -n 2 "$PYTHON" -c '
import hvd, numpy, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hvd.init()
if hvd.rank() == 1:
    raise KeyError("my own mistake")
hvd.allreduce(numpy.ones(3), name="waits")'
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c 'Traceback' <<<"$output")" = 1 ]
    has ' failed first: KeyError: '"'my own mistake' (<string>:6), exited with status 1, "
    has 'RankLostError: allreduce "waits": rank 1 '
    # the place is the program's own, not one inside a library
    run "$hvdrun" -n 1 "$PYTHON" -c '
import hvd, json
json.loads("no JSON")'
    has ' failed first: JSONDecodeError: Expecting value: line 1 column 1 (char 0) (<string>:3), exited with status 1, '
    run "$hvdrun" -n 1 "$PYTHON" -c '
import hvd, numpy
hvd.allreduce(numpy.ones(3))'
    has ' failed first: StateError: hvd is not initialised; call hvd.init first (<string>:3), exited with status 1, '
    TORCHELASTIC_ERROR_FILE=$BATS_TEST_TMPDIR/error run "$hvdrun" -n 1 "$PYTHON" -c '
import hvd
raise ValueError("no more data")'
    [ "$("$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["message"]["message"])' \
        "$BATS_TEST_TMPDIR/error")" = 'ValueError: no more data' ]
}

# every_file N [FILE...]: run the files that any number of ranks can run, and these, on N ranks, which start once for them;
# those that need torch skip without it
every_file() {
    on "$1" test_collectives.py test_messages.py test_devices.py test_job.py test_torch.py test_optimizer.py test_names.py \
        test_distributed.py test_distributed_messages.py test_distributed_stated.py test_distributed_waits.py \
        test_distributed_recipes.py test_distributed_whole.py "${@:2}"
}

@test "a program that ends on its own after its job has failed says in a line that it cannot leave it" {
    run timeout -k 5 60 "$hvdrun" -n 2 --hvd-stall-abort=1s --grace=20s "$PYTHON" -c '
import sys, time, hvd, numpy
hvd.init()
if hvd.rank() == 1:
    time.sleep(5)
try:
    hvd.allreduce(numpy.ones(4), name="late")
except hvd.TimedOutError:
    sys.exit(3)'
    echo "$output"
    [ "$status" -eq 3 ]
    has 'hvd.shutdown at exit: TimedOutError: stall-abort: in allreduce "late" for 1.'
    [[ $output != *Traceback* ]]
}

@test "a rank whose operation of torch.distributed has timed out ends, and does not wait for the others" {
    need_python torch
    run timeout -k 5 60 "$hvdrun" -n 2 --grace=1s --hvd-kill-wait=1s "$PYTHON" -c '
import datetime, signal, torch, torch.distributed as dist, hvd.distributed
dist.init_process_group("hvd", timeout=datetime.timedelta(seconds=1))
if dist.get_rank() == 1:
    signal.pause()
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError as error:
    print("told:", error)
dist.destroy_process_group()'
    echo "$output"
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    has 'told: torch0.allreduce.noname.0 was not done after 1 s, the timeout of its group'
    has 'an operation that timed out is still in flight, so this rank does not wait for the others'
}

@test "a set that its members alone add: one that does not come, stops or is lost is named" {
    need_python torch
    # adding HOW OPTION...: ranks 0 and 2 are to add a set, and rank 2 does HOW instead; rank 1 calls nothing
    adding() {
        run timeout -k 5 60 "$hvdrun" -n 3 --grace=20s --hvd-kill-wait=5s "${@:2}" "$PYTHON" -c "
import os, signal, sys, hvd
hvd.init()
hvd.barrier() # a rank that is lost while others are in hvd.init is told of by hvdrun alone
if hvd.rank() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN) # hvdrun sends it as soon as rank 2 is lost
    try:
        hvd.add_process_set([0, 2], by_members=True)
    except hvd.HvdError as error:
        print('told:', type(error).__name__, error)
        sys.exit(1)
elif hvd.rank() == 2:
    $1
signal.pause()"
        echo "$output"
        [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    }
    adding 'signal.pause()' --hvd-stall-warn=500ms --hvd-stall-abort=2s
    has 'warning: stall: in recv of uint8[164] from rank 2 for hvd_set_add_by_members of ranks 0,2 for '
    has 'told: TimedOutError recv from rank 2 for hvd.add_process_set(by_members=True) of ranks 0,2: stall-abort: '
    adding 'os.kill(os.getpid(), signal.SIGKILL)'
    has 'told: RankLostError recv from rank 2 for hvd.add_process_set(by_members=True) of ranks 0,2: rank 2 '
    run timeout -k 5 60 "$hvdrun" -n 2 --grace=1s --hvd-kill-wait=1s "$PYTHON" -c '
import datetime, signal, hvd.distributed
from hvd._rendezvous import add_set_by_members
hvd.init()
if hvd.rank() == 1:
    signal.pause()
try:
    add_set_by_members("new_group", [1, 0], datetime.timedelta(seconds=1))
except RuntimeError as error:
    print("told:", error)'
    echo "$output"
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    has 'told: new_group: not all of the ranks [0, 1] called it within 1 s'
    has 'an operation that timed out is still in flight, so this rank does not wait for the others'
}

@test "a program that ends while a callback of a future runs ends well" {
    need_python torch
    run timeout -k 5 60 "$hvdrun" -n 2 "$PYTHON" -c '
import time, torch, torch.distributed as dist, hvd.distributed
dist.init_process_group("hvd")
begun = []
class Last:  # Python takes its time to end
    def __del__(self, sleep=time.sleep):
        sleep(1)
last = Last()
def compute(_):  # in and out of torch, until after the end of the program
    begun.append(1)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        torch.ones(1000).sum()
work = dist.all_reduce(torch.ones(1), async_op=True)
work.get_future().then(compute)
while not begun:
    time.sleep(0.01)
print("ends")'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c ends <<<"$output")" = 2 ]
}

@test "ranks that are killed leave no folder of torch's store behind" {
    need_python torch
    cd "$BATS_TEST_TMPDIR"
    mkdir there
    TMPDIR=$PWD/there run timeout -k 5 60 "$hvdrun" -n 2 "$PYTHON" -c '
import glob, os, signal, torch.distributed as dist, hvd.distributed
dist.init_process_group("hvd")
if dist.get_rank() == 0:
    assert glob.glob(os.environ["TMPDIR"] + "/hvdrun.*/hvd-store.*")
dist.barrier()
os.kill(os.getpid(), signal.SIGKILL)'
    echo "$output"
    [ "$status" -eq 137 ]
    [ -z "$(ls -A there)" ]
}

@test "the table of the package is hvd.h; all calls on one rank" {
    on 1 test_abi.py test_source.py test_collectives.py test_messages.py test_devices.py test_job.py test_torch.py test_optimizer.py \
        test_names.py test_distributed.py test_distributed_messages.py test_distributed_stated.py test_distributed_waits.py \
        test_distributed_recipes.py test_distributed_whole.py test_elastic.py
}

@test "all calls on two ranks" {
    every_file 2 test_memory.py test_elastic.py
}

@test "all calls on three ranks" {
    every_file 3
}

@test "pipelines, ring attention, experts and sharded models on four ranks" {
    need_python torch
    on 4 test_distributed_messages.py test_distributed_recipes.py
}

@test "arrays on GPUs: results too, by NCCL and through the host, on a double of both" {
    double=$HVD_BUILD/tests/double/cuda/.libs nccl=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    [ -e "$double/libcuda.so.1" ] || skip 'hvd was configured --with-cuda=no'
    export LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH HVD_DOUBLE_REPORT=$BATS_TEST_TMPDIR/report
    GPU_OF_EACH=0 HVD_NCCL_LIBRARY=$BATS_TEST_TMPDIR/none.so on 2 test_gpu.py
    [ ! -e "$nccl" ] || GPU_OF_EACH=1 HVD_NCCL_LIBRARY=$nccl on 3 test_gpu.py
    [ ! -e "$HVD_DOUBLE_REPORT" ]
}

# accuracy AT-LEAST: the last line of the output says such an accuracy
accuracy() {
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} =~ accuracy=([0-9.]+) ]]
    awk -v found="${BASH_REMATCH[1]}" -v least="$1" 'BEGIN { exit !(found >= least) }'
}

# learned: the output is that of examples that learned; adds the losses of their first epochs to $losses
learned() {
    accuracy 0.9
    losses="${losses:-} $(sed -n 's/^epoch 1 loss=\([0-9.]*\) .*/\1/p' <<<"$output")"
}

@test "the examples learn the same on 1, 2 and 4 ranks, with DistributedOptimizer and with DistributedDataParallel" {
    need_python torch
    for program in train_torch train_ddp; do
        run timeout -k 5 100 "$hvdrun" --no-prefix -n 2 "$PYTHON" "$HVD_SOURCE/examples/$program.py" --epochs=3
        learned
    done
    for ranks in 1 4; do # both by one start, for the time that it takes
        run timeout -k 5 200 "$hvdrun" --no-prefix -n $ranks "$PYTHON" -c 'import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
for program in sys.argv[1:3]:
    sys.argv = [program, "--epochs=3"]
    runpy.run_path(program, run_name="__main__")' "$HVD_SOURCE"/examples/train_{torch,ddp}.py
        learned
    done
    # batches hold the same pictures in each case, in another order
    tr ' ' '\n' <<<"$losses" | awk 'NF { if (!n++) first = $1; if ($1 - first > 0.02 || first - $1 > 0.02) bad = 1 }
        END { exit bad || n != 6 }'
}

@test "python3 -m hvd.bench measures what it can" {
    need_python torch
    run timeout -k 5 100 "$PYTHON" -m hvd.bench --rounds 1
    echo "$output"
    [ "$status" -eq 0 ]
    has "ResNet-50's 161 gradients, 97.5 MiB"
    [ "$(grep -cE '^    .* us +[0-9.]+ x$' <<<"$output")" -eq 12 ]
    [[ $output != *hvdrun:* ]] # hvdbench runs in a job inside this one
}

@test "a script that knows only Horovod runs unedited by horovodrun" {
    need_python torch
    export PYTHONPATH=$HVD_SOURCE/python/compat:$PYTHONPATH
    horovodrun=("$PYTHON" -m horovod.runner.launch)
    run timeout -k 5 100 "${horovodrun[@]}" -np 2 --fusion-threshold-mb 32 --cycle-time-ms 5 -H localhost:2 \
        "$PYTHON" "$HVD_SOURCE/tests/python/horovod_digits.py" "$HVD_SOURCE/examples/digits.csv"
    has 'horovodrun: --cycle-time-ms is ignored: hvd has no cycles'
    accuracy 0.85
    run "${horovodrun[@]}" -np 2 --fusion-treshold-mb 32 true
    [ "$status" -eq 2 ]
    [ "$output" = 'horovodrun: --fusion-treshold-mb: unknown; did you mean --fusion-threshold-mb?' ]
    run "${horovodrun[@]}" -np 2 -H far:1 true
    has 'hvdrun: 2 ranks are asked for, but the hosts have 1 slot'
    echo 'localhost slots=2' >"$BATS_TEST_TMPDIR/hosts"
    run "${horovodrun[@]}" -np 2 --hostfile "$BATS_TEST_TMPDIR/hosts" --output-filename "$BATS_TEST_TMPDIR/logs" \
        -prefix-timestamp sh -c 'echo it runs'
    [ "$(grep -cE '^[0-9:.]+ \[[01]\] it runs$' <<<"$output")" = 2 ]
    [ "$(cat "$BATS_TEST_TMPDIR/logs/rank.1.out")" = 'it runs' ]
    run "${horovodrun[@]}" -np 2 --reset-limit 1 false
    has 'restart 1 of 1'
    cd "$BATS_TEST_TMPDIR"
    run timeout 60 "$PYTHON" -c '
import horovod
print(horovod.run(int, ("7",), np=2, use_gloo=True, output_filename="of-run", network_interfaces=None))
horovod.run(int, np=2, hostz="a")'
    has '[7, 7]'
    has 'TypeError: horovod.run: hvd does not know the argument hostz'
    [ -e of-run/rank.1.out ]
    run "${horovodrun[@]}" true
    has '-np N is missing'
    run "${horovodrun[@]}" --help
    has '--fusion-threshold-mb '
    run timeout 60 "$PYTHON" -c 'import horovod.torch as hvd; from horovod.torch.mpi_ops import allreduce_async_; print(hvd.size)'
    has 'function size'
    while read -r module sentence; do
        run timeout 60 "$PYTHON" -c "import horovod.$module"
        has "ModuleNotFoundError: horovod.$module: $sentence"
    done <<'END'
tensorflow hvd has no binding for it: reduce its arrays by hvd.allreduce
spark start the ranks by srun or hvdrun
END
    run timeout 60 "$PYTHON" -c 'import horovod.nothing'
    has "No module named 'horovod.nothing'"
    run timeout 60 "$PYTHON" -c 'from horovod.common.util import gloo_built, split_list; print(gloo_built(), split_list([1, 2, 3], 2))'
    has 'False [[1, 2], [3]]'
}

@test "horovodrun takes Horovod's file of options, and says what is wrong with it" {
    need_python yaml
    export PYTHONPATH=$HVD_SOURCE/python/compat:$PYTHONPATH
    cd "$BATS_TEST_TMPDIR"
    horovodrun=("$PYTHON" -m horovod.runner.launch)
    printf '%s\n' 'params:' '  fusion_threshold_mb: 8' '  cycle_time_ms: 3' 'timeline:' '  mark_cycles: false' \
        'stall_check:' '  enabled: true' '  warning_time_seconds: 77' >good.yaml
    run timeout 60 "${horovodrun[@]}" -np 1 --config-file good.yaml --stall-check-warning-time-seconds=66 \
        "$HVD_BUILD/bin/hvdinfo"
    echo "$output"
    [ "$status" -eq 0 ]
    has 'horovodrun: --cycle-time-ms is ignored'
    [[ $output =~ fusion[^$'\n']*8M ]]
    [[ $output =~ stall-warn[^$'\n']*66 ]]
    run timeout 60 "${horovodrun[@]}" -np 1 --no-stall-check "$HVD_BUILD/bin/hvdinfo"
    echo "$output"
    [ "$status" -eq 0 ]
    for option in stall-warn stall-abort hang-abort; do
        grep -Eq " $option +0 +command line$" <<<"$output"
    done
    while read -r content sentence; do
        printf '%b' "$content" >bad.yaml
        run "${horovodrun[@]}" -np 1 --config-file bad.yaml true
        [ "$status" -eq 2 ]
        has "$sentence"
    done <<'END'
parms:\n\x20\x20a:\x201 parms: expected a section
params:\n\x20\x20fusion_treshold_mb:\x201 did you mean --fusion-threshold-mb?
params:\n\x20\x20cache_capacity:\x20[1] expected a number
[1] expected sections: params
{ --config-file bad.yaml: while parsing
END
    run "${horovodrun[@]}" -np 1 --config-file none.yaml true
    has 'No such file or directory'
}

@test "hvd.run and hvd.launch: results by rank, failures, events, restarts, elastic jobs, a file for each rank" {
    run timeout -k 5 100 "$PYTHON" "$HVD_SOURCE/tests/python/launching.py" "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 0 ]
    has '[(48, 0), (48, 1), (48, 2)]'
    has 'killed 1 137 True'
    has 'left 1 3 True'
    has 'exits 1 5 True'
    has "[('/of/caller', '7')]"
    has "refused: hvd.run: np='2': expected a whole number "
    has 'refused: hvd.run: np=1.5: expected a whole number '
    has "refused: options='--hvd-fusion=64M': expected a list, as ['--hvd-fusion=64M']"
    has "refused: env: 'COUNT'=1: expected two strings"
    has 'refused: env: HVD_EPOCH=x: expected a whole number'
    has 'failed: 1 True True'
    has 'hvd: rank 0 failed first: RuntimeError: the first time'
    has '{0: 2, 1: 2}'
    has 'from a command'
    has 'hvdrun: --nnodes 1:2: the ranks are on this machine only'
    has 'one node of two: {0: (1, 0)}'
    has 'trainer1|begins'
    has 'elastic: {0: (0, 2, 1), 1: (1, 2, 2)}'
    has 'hvd: event_handler failed for rank_lost:'
    has 'events: job_started job_ended epoch_formed rank_exited rank_lost rank_started once'
    grep -qx 'hvdrun_rank_losses_total{run_id="once"} 1' "$BATS_TEST_TMPDIR/metrics.prom"
    has 'lacks: 75 hvdrun ended with status 75: hvdrun: 1 rank is left, fewer than --min-np=2, and too few others have joined within 200ms'
    has 'hvdrun: rank 0 exited with status 1; 1 of 2 ranks go on; it starts again in 1 s, restart 1 of 1'
    has "all again: (0, 1, '', True)"
    has 'run: [(0, 2, 0), (1, 2, 2), None]'
    has "raised: (1, 1, '', True)"
    has "killed: (1, -9, 'SIGKILL', False)"
    has "counts: {0: ('1', 'again'), 1: ('1', 'again')}"
    has 'whole: RunError None hvdrun ended with status 2: hvdrun: --hvd-fusion=64Q: the value has an unknown unit'
    while read -r sentence; do
        has "refused: $sentence"
    done <<'END'
min_nodes=2, max_nodes=2: hvd.launch starts ranks on this machine, so min_nodes is 1
rdzv_endpoint=192.0.2.1:29500: is another machine
min_np=2: the job begins with 1 ranks; expected 1 to 1
max_np=3: the job begins with 4 ranks; expected 4 or more
max_restarts=-1: expected 0 or more
rdzv_timeout=0: expected a number of seconds
start_method='fork': hvdrun starts each rank as a program of its own
tee=1: hvdrun writes both streams of all ranks, or none
metrics_cfg: 'period' is not known
event_handler='console': expected a function
event_handler and --events both take the events
END
    has '[1] from a command'
    [ "$(cat "$BATS_TEST_TMPDIR/job/attempt_0/rank.1.out")" = 'from a command' ]
    grep -qx 'RuntimeError: the first time' "$BATS_TEST_TMPDIR/once/attempt_0/rank.0.err"
    [ -f "$BATS_TEST_TMPDIR/once/attempt_1/rank.0.err" ]
    [[ $output != *'only in a file'* ]]
    [ "$(cat "$BATS_TEST_TMPDIR/quiet/attempt_0/rank.0.out")" = 'only in a file' ]
}
