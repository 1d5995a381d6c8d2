#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # each test sets output and status anew
# start.bats: sub-jobs, process sets that hvd_init_with makes, MPI communicators, and stopping. The cases are in start.c
# and comms.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
}

# mpi N CASE [ARGUMENT OF MPIRUN...]: run a case of comms.c
mpi() {
    local size=$1 case=$2
    shift 2
    [ -x "$HVD_BUILD/tests/run/comms" ] || skip 'hvd was built without MPI'
    command -v mpirun >/dev/null || skip 'mpirun is not installed (Debian: openmpi-bin)'
    run timeout -k 5 60 mpirun --allow-run-as-root --oversubscribe -np "$size" "$@" \
        "$HVD_BUILD/tests/run/comms" "$case" </dev/null
    echo "comms $case on $size: $output"
    [ "$status" -eq 0 ]
}

@test "parts of the launcher's job are jobs of their own, in the order of their lists" {
    good_case 7 start parts
}

@test "process sets to begin with have the numbers of their places" {
    good_case 4 start sets
    good_case 5 start sets
}

@test "process sets of a part are by its own ranks" {
    good_case 4 start part-sets
}

@test "process sets that differ fail on every rank, and leave nothing behind" {
    good_case 3 start set-lists
}

@test "a set that exists is another's mismatch" {
    good_case 3 start set-exists
}

@test "after hvd_shutdown, or a start that failed, the ranks can start again" {
    good_case 2 start again
    good_case 3 start again --hvd-backends=tcp
}

@test "a host may unload the library without hvd_shutdown, and go on" {
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 "$HVD_BUILD/tests/run/unload" "$HVD_BUILD/core/.libs/libhvd.so.0"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^went on$' <<<"$output")" -eq 2 ]
}

@test "a process has any number of jobs, one after the other, and none leaves anything behind" {
    good_case 1 start lives
    good_case 2 start lives
    run timeout -k 5 60 "$HVD_BUILD/tests/run/start" lives </dev/null
    echo "alone: $output"
    [ "$status" -eq 0 ]
}

# shellcheck disable=SC2016 # the inner shells expand their own variables
@test "a program that a rank starts does not take its place, and one after it may" {
    local start=$HVD_BUILD/tests/run/start
    good_case 1 start child
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 sh -c '"$0" child && exec "$0" child' "$start"
    echo "$output"
    [ "$status" -eq 0 ]
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT HVD_JOB_KEY=0123456789abcdef0123456789abcdef
    MASTER_PORT=$(free_port)
    run timeout -k 5 60 bash -c 'RANK=1 "$0" child & RANK=0 "$0" child && wait $!' "$start"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "all ranks stop at the same call" {
    good_case 1 start stop
    good_case 3 start stop
    good_case 3 start stop-threads
}

@test "a communicator is a job, also one of some of the processes" {
    mpi 5 job
    mpi 1 job
}

@test "the same where tensors travel by MPI" {
    mpi 5 job -x HVD_BACKENDS=mpi
    mpi 5 sets -x HVD_BACKENDS=mpi
}

@test "communicators are process sets, and are found again" {
    mpi 5 sets
    mpi 6 halves
}

@test "under hvdrun too" {
    [ -x "$HVD_BUILD/tests/run/comms" ] || skip 'hvd was built without MPI'
    good_case 5 comms sets
}

@test "communicators that do not fit are named by number on every rank" {
    mpi 4 outside
    mpi 3 counts
}

@test "communicators before MPI is there, and none, are refused" {
    mpi 1 early
}

@test "what all ranks are warned of is said once, and what one rank is warned of too" {
    HVD_FUSOIN=1 run timeout 60 "$hvdrun" -n 6 "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'warning: config: HVD_FUSOIN: hvd has no such option' <<<"$output")" -eq 1 ]
    [[ $output == *'rank 0 ('*') warning: config: HVD_FUSOIN'* ]]
    # shellcheck disable=SC2016 # for the inner shell
    run timeout 60 "$hvdrun" -n 3 sh -c '[ "$PMIX_RANK" != 2 ] || export HVD_LOGG=1; exec "$0"' "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$(grep -c 'warning: config: ' <<<"$output")" -eq 1 ]
    [[ $output == *'rank 2 ('*') warning: config: HVD_LOGG'* ]]
}

@test "a limit of memory is told by one rank, with the option that lowers the need" {
    run timeout 60 "$hvdrun" -n 32 --hvd-fusion=16G "$HVD_BUILD/examples/hello"
    echo "$output"
    [[ $output != *'the sum is'* ]] || skip 'this machine has memory for everything'
    [ "$status" -eq 1 ]
    has 'fusion=16G for 32 ranks on '
    has 'needs 512G'
    # one, but for a machine so busy that rank 0 does not get to speak in time
    [ "$(grep -c 'lower --hvd-fusion' <<<"$output")" -le 4 ]
}

# Before the ranks have found each other, and after that.
@test "what keeps every rank from starting is told by one of them" {
    readelf -d "$HVD_BUILD/core/.libs/libhvd.so" | grep -qE 'NEEDED.*lib(a|t|ub)san' && skip 'a sanitizer needs more memory'
    local change sentence
    while IFS='|' read -r change sentence; do
        run timeout 60 "$hvdrun" -n 32 bash -c "$change; exec \"\$0\"" "$HVD_BUILD/examples/hello"
        echo "$output"
        [ "$status" -eq 1 ]
        has "$sentence"
        # one, but for a machine so busy that rank 0 does not get to speak in time
        [ "$(grep -cF "$sentence" <<<"$output")" -le 4 ]
    done <<'END'
export HVD_FUSION=nonsense|HVD_FUSION=nonsense: the value does not begin with a digit
ulimit -v 150000|PMIx needs 160 MiB of address space to start
export HVD_TIMELINE=/dev/null|the timeline /dev/null/rank-
export HVD_DUMP_DIR=/dev/null|the folder /dev/null of dump-dir cannot be used
END
}

# libpmix crashed there, or spoke in words of its own.
@test "a rank without the memory that PMIx needs says so, with the limit" {
    readelf -d "$HVD_BUILD/core/.libs/libhvd.so" | grep -qE 'NEEDED.*lib(a|t|ub)san' && skip 'a sanitizer needs more memory'
    local mib
    for mib in 25 37 109; do
        run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 bash -c \
            "[ \"\$PMIX_RANK\" = 0 ] || ulimit -v $((mib * 1024)); exec \"$HVD_BUILD/examples/hello\""
        echo "$output"
        [ "$status" -eq 1 ]
        has "PMIx needs 160 MiB of address space to start, more than this process has left of its limit of $mib MiB"
        [[ $output != *'PMIX ERROR'* ]]
    done
}

# libpmix crashed in the server, as did the libraries of the ranks.
@test "a server without the memory that PMIx needs says so, with the limit, and one with it starts" {
    readelf -d "$HVD_BUILD/bin/hvdrun" | grep -qE 'NEEDED.*lib(a|t|ub)san' && skip 'a sanitizer needs more memory'
    local mib
    for mib in 15 16 24; do
        run bash -c "ulimit -v $((mib * 1024)); exec timeout -k 5 60 '$hvdrun' -n 6 true"
        echo "$output"
        [ "$status" -eq 1 ]
        has "the PMIx server needs 32 MiB of address space to start, more than this process has left of its limit of $mib MiB"
        [[ $output != *'PMIX ERROR'* ]]
    done
    for mib in 44 60; do
        run bash -c "ulimit -v $((mib * 1024)); exec timeout -k 5 60 '$hvdrun' -n 6 true"
        echo "$output"
        [ "$status" -eq 0 ]
    done
}

@test "a node of many ranks starts, and none of them needs a descriptor for each other one" {
    good_case 64 start many
    good_case 200 start many --hvd-fusion=1M
}

# Where the first rank of a node cannot make shared memory, no rank waits for it: all use TCP, and one says why. They
# waited for half of start-timeout.
without_memory() {
    local begun=$SECONDS
    run timeout -k 5 100 "$hvdrun" --no-prefix -n 4 --hvd-start-timeout=$((60 * PATIENCE))s bash -c \
        "if [ \"\$PMIX_RANK\" = 0 ]; then $1; else exec \"$HVD_BUILD/examples/hello\"; fi"
    echo "$output"
    [ "$status" -eq 0 ]
    [ $((SECONDS - begun)) -lt $((15 * PATIENCE)) ]
    [ "$(grep -c 'the sum is 10' <<<"$output")" -eq 4 ]
    [ "$(grep -c 'no shared memory with the other ranks of this node, TCP instead' <<<"$output")" -eq 1 ]
}

@test "a first rank with a limit on files makes its node use TCP at once" {
    without_memory "ulimit -f 1000; exec \"$HVD_BUILD/examples/hello\""
    # shellcheck disable=SC2016 # a command as the sentence has it
    has 'raise `ulimit -f`'
}

@test "a first rank to which memfd_create is refused makes its node use TCP at once" {
    "$HVD_BUILD/tests/run/refuse" ENOSYS memfd_create -- true || skip 'this kernel takes no filter of system calls'
    without_memory "exec \"$HVD_BUILD/tests/run/refuse\" ENOSYS memfd_create -- \"$HVD_BUILD/examples/hello\""
    [[ $output == *'memfd_create'* ]]
}

@test "more ranks than the node's memory can serve are told how many it can" {
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 64 --hvd-fusion=16G "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *'fusion=16G for 64 ranks on '*' needs '*', but the '*', enough for '*'; lower --hvd-fusion'* ]]
    [ "$(grep -c 'lower --hvd-fusion' <<<"$output")" -eq 1 ]
}

@test "too many ranks for the node are refused before PMIx has served any" {
    # of hvdrun's variables there is everything but a server
    local place=(PMIX_RANK=0 HVD_FUSION=16G HVD_JOB_KEY=hvdrun:00 PMIX_NAMESPACE=hvdrun.here.00)
    for name in WORLD_SIZE LOCAL_WORLD_SIZE HOROVOD_SIZE HOROVOD_LOCAL_SIZE; do place+=("$name=1024"); done
    for name in RANK LOCAL_RANK HOROVOD_RANK HOROVOD_LOCAL_RANK; do place+=("$name=0"); done
    place+=(NODE_RANK=0 GROUP_RANK=0 HOROVOD_CROSS_RANK=0 HOROVOD_CROSS_SIZE=1)
    run env "${place[@]}" timeout -k 5 30 "$HVD_BUILD/examples/hello"
    echo "$output"
    [[ $output == *'fusion=16G for 1024 ranks on '*'; lower --hvd-fusion'* ]]
    run env "${place[@]}" LOCAL_RANK=1025 timeout -k 5 30 "$HVD_BUILD/examples/hello" # which no launcher says
    echo "$output"
    [[ $output == *'PMIx server cannot be reached'* ]]
}
