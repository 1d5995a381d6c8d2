#!/usr/bin/env bats
# failures.bats: the ways in which a step fails, and the last line of srun: which rank failed first, how, when, and what it
# was doing. The program is crash.c: its rank 1 fails after the allreduce "first".
# shellcheck disable=SC2016,SC2030,SC2031 # what stands in single quotes is for the tasks; run sets output in the test that reads it

bats_require_minimum_version 1.5.0
load helpers
load ../run/python

setup() {
    cluster_or_skip
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    crash=$HVD_BUILD/tests/run/crash
}

# fails STATUS TEXT ARGS: srun with these arguments ends in time, with this status; its last line is the only one that
# names a rank, and is TEXT, in which * stands for anything; no process is left
fails() {
    local wanted=$1 text=$2
    shift 2
    run srun_in 20 "$@"
    echo "$* ended with $status: $output"
    [ "$status" -eq "$wanted" ]
    # shellcheck disable=SC2053 # a pattern
    [[ ${lines[-1]} == "hvd: rank "$text ]]
    [ "$(grep -c '^hvd: .* failed first' <<<"$output")" -eq 1 ]
    run login_in 5 pgrep -x '(lt-)?crash'
    [ "$status" -eq 1 ]
}

@test "a rank that is killed, on each MPI type" {
    local mpi
    for mpi in pmix pmi2 none; do
        login_in 10 srun --mpi=list 2>&1 | grep -qw $mpi || continue
        fails 137 '1 (n1, pid *) failed first: killed by SIGKILL, * after start, computing since allreduce "first"; 5 other ranks ended after it' \
            --hvd --mpi=$mpi -N3 -n6 "$crash" kill -
    done
}

@test "a rank that crashes: its place comes before the last line" {
    fails 139 '1 (n1, pid *) failed first: killed by SIGSEGV*, * after start, computing since allreduce "first"; 3 other ranks ended after it' \
        --hvd -N2 -n4 "$crash" segv 0x10
    run srun_in 20 --hvd -N2 -n4 "$crash" segv 0x10
    [[ ${lines[-2]} == 'hvd: rank 1: SIGSEGV at address 0x10 in '*'crash+0x'* ]]
}

@test "a rank that exits: srun's status is the highest of all" {
    fails 9 '1 (n1, pid *) failed first: exited with status 3, * after start, computing since allreduce "first"; 3 other ranks ended after it' \
        --hvd -N2 -n4 "$crash" exit 3
    fails 42 '1 (n1, pid *) failed first: exited with status 42, *' --hvd -N2 -n4 "$crash" exit 42
}

@test "a rank that dies while it waits; the other is ended by kill-wait" {
    fails 143 '1 (n2, pid *) failed first: killed by SIGALRM, * after start, in allreduce "second"*' \
        --hvd -N2 -n2 --hvd-kill-wait=200ms "$crash" wait -
}

@test "a rank that exits with 0 while others wait, alone on its node or not" {
    local text='1 (n*, pid *) failed first: exited with status 0 while others waited for allreduce "*", *; 2 other ranks ended after it'
    fails 9 "$text" --hvd -N3 -n3 "$crash" exit 0
    fails 9 "$text" --hvd -N2 -n3 --export=NONE /usr/bin/env HVD_MODULE_PATH="$HVD_MODULE_PATH" "$crash" exit 0
}

@test "a rank that hangs is named by those that waited for it" {
    fails 143 '? (n?, pid *) failed first: *, after allreduce "second" failed: stall-abort: in allreduce "second" for 1.* s, waits for 1 rank: rank 1 (n1) *; * ended after it' \
        --hvd -N2 -n4 --hvd-stall-warn=500ms --hvd-stall-abort=1s --hvd-kill-wait=200ms "$crash" hang -
}

@test "the exception of a Python program, from the error file of torchrun" {
    fails 1 '2 (n2, pid *) failed first: ValueError: no more data (train.py:31), exited with status 1, *' \
        --hvd -N2 -n4 sh -c '[ $SLURM_PROCID = 2 ] || exit 0
            echo "{\"message\": {\"message\": \"ValueError: no more data\", \"extraInfo\": {\"py_callstack\":
                \"File \\\"/home/me/train.py\\\", line 31, in f\"}}}" | tr -d "\n" >"$TORCHELASTIC_ERROR_FILE"
            exit 1'
    run srun_in 10 --hvd -n1 --export=ALL,TORCHELASTIC_ERROR_FILE=/mine sh -c 'echo "$TORCHELASTIC_ERROR_FILE"'
    [ "$output" = /mine ]
}

@test "the exception of a program that uses hvd" {
    need_python numpy
    export PYTHONPATH=$HVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 HVD_BUILD
    printf '%s\n' 'import hvd' 'hvd.init()' 'hvd.barrier()' 'if hvd.rank() == 2:' '    raise ValueError("no more data")' \
        'hvd.barrier()' >"$CLUSTER/train.py"
    fails 1 '2 (n2, pid *) failed first: ValueError: no more data (train.py:5), exited with status 1, * after start, computing since barrier*; 3 other ranks ended after it' \
        --hvd -N2 -n4 "$PYTHON" "$CLUSTER/train.py"
}

# Put slurmd on n2, and the steps that it starts from now on, into a control group.
move_slurmd() {
    node_in 5 n2 sh -c 'echo "$1" >"$0/cgroup.procs"' "$1" "$(<"$CLUSTER/pid-n2")"
}

@test "memory that runs out in the control group of the step" {
    local folder=/sys/fs/cgroup/memory limit=memory.limit_in_bytes group
    [ ! -e /sys/fs/cgroup/cgroup.controllers ] || folder=/sys/fs/cgroup limit=memory.max
    # the cluster's Slurm makes no control groups: its slurmd on n2 is put into one that is named as Slurm names a step's
    group=$folder/step_hvd-test-$$
    mkdir "$group" 2>/dev/null || skip 'control groups cannot be made here'
    echo 256M >"$group/$limit" 2>/dev/null && move_slurmd "$group" || {
        rmdir "$group"
        skip 'memory cannot be limited here'
    }
    fails 137 '1 (n2, pid *) failed first: killed by SIGKILL (out of memory: limit 256 MiB), * after start, computing since allreduce "first"; 1 other rank ended after it' \
        --hvd -N2 -n2 "$crash" oom -
    move_slurmd "$folder"
    rmdir "$group"
}

@test "a program that cannot be started" {
    fails 2 '? (n?, pid *) failed first: exited with status 2, *; 3 other ranks ended after it' --hvd -N2 -n4 /nowhere
}

@test "the rank is that of the whole step where it has several components" {
    fails 137 '3 (n2, pid *) failed first: killed by SIGKILL, *' \
        --hvd -n2 --mpi=none true : -n2 --mpi=none sh -c 'test $SLURM_PROCID != 3 || kill -9 $$'
}

# cancel STEP OUTPUT SIGNAL: cancel the job of this srun; its last line says that its ranks were ended from outside
cancel() {
    login_in 5 sh -c 'scancel "$(squeue -h -o %i)"'
    status=0
    wait "$1" || status=$?
    cat "$2"
    [ "$status" -ne 0 ]
    [[ $(tail -n 1 "$2") == 'hvd: rank '?' (n'?', pid '*') was ended first: killed by '$3' (from outside: cancelled, interrupted, or over a time limit), '*'; 1 other rank ended after it' ]]
}

@test "a job that is cancelled: which rank was ended first, and what it was doing" {
    local step
    srun_in 20 --hvd -N2 -n2 "$crash" hang - >"$CLUSTER/cancel.out" 2>&1 3>&- &
    step=$!
    timeout 10 "$CLUSTER_SH" run "$CLUSTER" sh -c 'until pgrep -x "(lt-)?crash" >/dev/null; do sleep 0.05; done'
    cancel $step "$CLUSTER/cancel.out" SIGTERM
}

@test "a job that is cancelled although its ranks ignore SIGTERM: none of them failed" {
    local step
    mkfifo "$CLUSTER/ignore"
    chmod 666 "$CLUSTER/ignore"
    srun_in 30 --hvd -N2 -n2 sh -c 'trap "" TERM; echo ready >"$0/ignore"; while :; do sleep 1; done' "$CLUSTER" \
        >"$CLUSTER/ignore.out" 2>&1 3>&- &
    step=$!
    timeout $((10 * PATIENCE)) head -n 2 <>"$CLUSTER/ignore"
    cancel $step "$CLUSTER/ignore.out" SIGKILL
}

# outside COMMAND: in a job a step runs whose ranks all wait; this ends it, and its last line calls none failed. On a busy
# machine slurmstepd may kill one task a while before the next, which nothing tells from a failure: so there are five steps
outside() {
    local try
    printf '%s\n' 'srun --hvd -N2 -n4 sh -c '\''"$0" hang -; exec sleep 60'\'' "$0" &' \
        'until [ "$(pgrep -xc "(lt-)?crash")" = 4 ]; do sleep 0.05; done' "$1" 'wait $!' >"$CLUSTER/outside.sh"
    for try in 1 2 3 4 5; do
        run salloc_in 30 -N2 -n4 bash -c "$(<"$CLUSTER/outside.sh")" "$crash"
        echo "$1 $try, $status: $output"
        grep -E '^hvd: rank [0-3] \(n[12], pid [0-9]+\) was ended first: killed by SIGKILL \(from outside: cancelled, interrupted, or over a time limit\), .*; 3 other ranks ended after it' <<<"$output" || continue
        expect_no_text "$output" 'failed first'
        return
    done
    return 1
}

@test "a step that is cancelled by itself, or whose srun is ended: none of its ranks failed" {
    outside 'scancel $SLURM_JOB_ID.0'
    outside 'kill -TERM $!'
}

@test "a controller that does not answer keeps no step whose ranks are killed" {
    local controller
    controller=$(login_in 5 cat "$CLUSTER/slurmctld.pid")
    printf '%s\n' 'srun --hvd -N2 -n2 sh -c '\''echo $$ >>"$0/victims"; exec sleep 60'\'' "$1" &' \
        'until [ "$(grep -c . "$1/victims" 2>/dev/null)" = 2 ]; do sleep 0.05; done; kill -STOP "$2"; SECONDS=0' \
        'kill -KILL $(cat "$1/victims"); wait $!; echo "ended with $? after $SECONDS s"; kill -CONT "$2"' >"$CLUSTER/stopped.sh"
    : >"$CLUSTER/victims" && chmod 666 "$CLUSTER/victims"
    run salloc_in 60 -N2 -n2 bash "$CLUSTER/stopped.sh" "$CLUSTER" "$controller"
    login_in 5 kill -CONT "$controller"
    echo "$output"
    [[ $output =~ 'ended with 137 after '([0-9]+)' s' ]]
    [ "${BASH_REMATCH[1]}" -le $((6 * PATIENCE)) ] # Slurm's MessageTimeout is 10 s
    grep -E '^hvd: rank [01] .* failed first: killed by SIGKILL, ' <<<"$output"
}

@test "srun is killed: nothing is left" {
    login_in 20 sh -c 'srun --hvd -N2 -n2 "$0" hang - & until pgrep -x "(lt-)?crash" >/dev/null; do sleep 0.05; done
        kill -KILL $!; wait $!' "$crash" || true
    login_in 20 sh -c 'until [ -z "$(squeue -h)" ]; do sleep 0.05; done; ! pgrep -x "(lt-)?crash"'
}

@test "nothing is said of success, of other steps, nor of ranks that all end without hvd_shutdown" {
    run srun_in 20 --hvd -N2 -n4 "$HVD_BUILD/examples/hello"
    expect_no_text "$output" 'failed first'
    run srun_in 20 -N2 -n4 sh -c 'echo "${HVD_FLIGHT_MEMORY-none} ${SLURM_HVD_REPORT-none}"; exit $SLURM_PROCID'
    [ "$status" -eq 3 ]
    expect_no_text "$output" 'failed first'
    [ "$(grep -cx 'none none' <<<"$output")" -eq 4 ]
}

@test "srun listens in SrunPortRange, and tells no task where" {
    { cat "$CLUSTER/slurm.conf" && echo 'SrunPortRange=31000-31040'; } >"$CLUSTER/ranged.conf"
    run login_in 20 env SLURM_CONF="$CLUSTER/ranged.conf" srun --hvd -n1 sh -c 'echo "${SLURM_HVD_REPORT-none}"
        grep -ci ":7919 \|:79[12][0-9A-F] " /proc/net/tcp6; exit 3'
    echo "$output"
    expect_line "$output" none
    [[ ${lines[-1]} == 'hvd: rank 0 (n1, pid '*') failed first: exited with status 3, '* ]]
}

# last, because the node has no slurmd after it
@test "without slurmd on its node a rank is named as well" {
    local step go
    mkfifo "$CLUSTER/go"
    chmod 666 "$CLUSTER/go"
    srun_in 20 --hvd -N2 -n2 sh -c '[ $SLURM_PROCID = 0 ] || { read -r _ <"$0/go"; exit 3; }' "$CLUSTER" \
        >"$CLUSTER/slurmd.out" 2>&1 3>&- &
    step=$!
    exec {go}>"$CLUSTER/go" # waits for the task
    node_in 5 n2 kill -KILL "$(<"$CLUSTER/pid-n2")"
    echo >&"$go"
    status=0
    wait $step || status=$?
    cat "$CLUSTER/slurmd.out"
    [ "$status" -eq 3 ]
    [[ $(tail -n 1 "$CLUSTER/slurmd.out") == 'hvd: rank 1 (n2, pid '*') failed first: exited with status 3, '* ]]
}
