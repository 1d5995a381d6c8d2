#!/usr/bin/env bats
# failure.bats: what hvdrun's last lines say of the rank that failed first, for each way to fail. The program is crash.c:
# its rank 1 fails after the allreduce "first". Ends of hvdrun's own processes are in hvdrun.bats and hvdrun_faults.bats,
# ranks that hang in stalled.bats.
# shellcheck disable=SC2016,SC2154 # what stands in single quotes is for the ranks to expand; hvdrun.bash sets variables

bats_require_minimum_version 1.5.0
load setup
load hvdrun
load python

# fails STATUS TEXT -- HOW ARGUMENT: run crash on 3 ranks; hvdrun's status is this, and its last line has all of TEXT, in
# which * stands for anything
fails() {
    hvd -n 3 "$HVD_BUILD/tests/run/crash" "$4" "$5"
    [ "$status" = "$1" ]
    # shellcheck disable=SC2053 # a pattern
    [[ $(last_line) == "hvd: rank 1 ($(hostname), pid "*") failed first: "$2 ]]
    [ "$(grep -c '^hvd: .* failed first' err)" = 1 ]
}

@test "a rank that is killed: by which signal, when, after which operation" {
    fails 137 'killed by SIGKILL, * after start, computing since allreduce "first"; 2 other ranks ended after it' -- kill -
}

@test "a rank that exits" {
    fails 3 'exited with status 3, * after start, computing since allreduce "first"; 2 other ranks ended after it' -- exit 3
}

@test "a rank that exits where somebody sets the clock: nothing waits for the time of day" {
    LD_PRELOAD=$HVD_BUILD/tests/run/.libs/clock_set.so fails 3 'exited with status 3, * ms after start, *' -- exit 3
    LD_PRELOAD=$HVD_BUILD/tests/run/.libs/clock_set.so hvd -n 3 --min-np=2 "$HVD_BUILD/tests/run/elastic" 1@20
    cat out err
    [ "$status" = 0 ]
    grep -q 'rank 0 of 2, .* after 1 loss' out
}

@test "a rank that exits with a status of its own after hvd_shutdown" {
    hvd -n 3 "$HVD_BUILD/tests/run/crash" leave 85
    [ "$status" = 85 ]
    [[ $(last_line) == "hvd: rank 1 ($(hostname), pid "*') ended first: exited with status 85, '*' after start, after hvd_shutdown; '*'2 other ranks '* ]]
}

@test "a rank that dies while it waits" {
    fails 142 'killed by SIGALRM, * after start, in allreduce "second"; *' -- wait -
}

@test "a rank that exits with 0 while others wait" {
    fails 1 'exited with status 0 while others waited for allreduce "second", *; 2 other ranks ended after it' -- exit 0
}

@test "a rank that crashes: address, function and callers, and the core file" {
    fails 139 'killed by SIGSEGV, *' -- segv 0x10
    grep -Eq '^hvd: rank 1: SIGSEGV at address 0x10 in (lt-)?crash\+0x[0-9a-f]+, called from ' err
    fails 134 'killed by SIGABRT, *' -- abort -
    grep -q '^hvd: rank 1: SIGABRT in .*abort+0x' err
    ulimit -c unlimited 2>/dev/null || skip 'core files are limited to 0'
    grep -q '^|' /proc/sys/kernel/core_pattern && skip 'core files go to a program here'
    fails 139 'killed by SIGSEGV (core dumped: core_pattern is *), *' -- segv 0x10
}

@test "without hvdrun a crash is a line on standard error" {
    status=0
    bash -c 'ulimit -c 0; exec "$0" segv 0x10' "$HVD_BUILD/tests/run/crash" 2>err || status=$?
    cat err
    [ "$status" = 139 ]
    grep -q "^hvd: rank 0 of 1 ($(hostname)), pid [0-9]*: SIGSEGV at address 0x10 in " err
}

@test "memory that runs out in the control group" {
    local group=/sys/fs/cgroup/memory/hvd-test-$$ limit=memory.limit_in_bytes
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        group=/sys/fs/cgroup/hvd-test-$$ limit=memory.max
    fi
    mkdir "$group" 2>/dev/null || skip 'control groups cannot be made here'
    if ! echo 128M >"$group/$limit" || ! [ -w "$group/cgroup.procs" ]; then
        rmdir "$group"
        skip 'memory cannot be limited here'
    fi
    status=0
    timeout -k 5 60 sh -c 'echo $$ >"$0" && exec "$@"' "$group/cgroup.procs" \
        "$hvdrun" -n 2 "$HVD_BUILD/tests/run/crash" oom - >out 2>err || status=$?
    rmdir "$group" || true
    cat err
    [ "$status" = 137 ]
    [[ $(last_line) == *') failed first: killed by SIGKILL (out of memory: limit 128 MiB), '* ]]
}

@test "an error file in the manner of torchrun" {
    hvd -n 2 sh -c '[ $PMIX_RANK = 1 ] || exec sleep 100
        echo "{\"message\": {\"message\": \"ValueError: no more data\", \"extraInfo\": {\"py_callstack\":
            \"Traceback\\n  File \\\"/a/first.py\\\", line 3\\n  File \\\"/home/me/train.py\\\", line 31, in f\"}}}" |
            tr -d "\n" >"$TORCHELASTIC_ERROR_FILE"
        exit 1'
    [ "$status" = 1 ]
    [[ $(last_line) == *') failed first: ValueError: no more data (train.py:31), exited with status 1, '* ]]
    TORCHELASTIC_ERROR_FILE=$BATS_TEST_TMPDIR/mine hvd -n 1 sh -c 'echo "$TORCHELASTIC_ERROR_FILE"; exit 4'
    grep -q "$BATS_TEST_TMPDIR/mine" out
}

@test "an exception that torch's @record writes down, in a job that torch takes for torchrun's" {
    need_python torch
    cat >program.py <<'END'
import os, sys, time
import torch.distributed
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    assert torch.distributed.is_torchelastic_launched()
    if os.environ["ROLE_RANK"] == "1":
        sys.stderr = None  # the file alone says it
        raise ValueError("no more data")
    time.sleep(100)

main()
END
    hvd --nproc-per-node=2 "$PYTHON" program.py
    [ "$status" = 1 ]
    [[ $(last_line) == *') failed first: ValueError: no more data (program.py:10), exited with status 1, '* ]]
}

@test "the exception of a Python program that has not imported hvd" {
    command -v python3 >/dev/null || skip 'there is no python3'
    printf 'import os, sys\nif os.environ["PMIX_RANK"] == "1":\n    import no_such_module\nsys.stdin.read()\n' >program.py
    hvd -n 2 python3 program.py
    [ "$status" = 1 ]
    [[ $(last_line) == *") failed first: ModuleNotFoundError: No module named 'no_such_module' (program.py:3), exited with status 1, "* ]]
    # one that it has survived is not why it ends with another status
    hvd -n 1 python3 -c 'import sys, traceback
try:
    {}["a"]
except KeyError:
    traceback.print_exc()
sys.exit(3)'
    [ "$status" = 3 ]
    [[ $(last_line) == *') failed first: exited with status 3, '* ]]
}
