#!/usr/bin/env bats
# stalled.bats: a rank stands still inside an operation that all ranks agreed on: it is named, and stall-abort ends the
# job. The program is stalled.c.

# shellcheck disable=SC2030,SC2031 # each test has variables of its own

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    stalled=$HVD_BUILD/tests/run/stalled
    [ -x "$hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    export TMPDIR=$BATS_TEST_TMPDIR MASTER_PORT
    MASTER_PORT=$(free_port)
}

# ranks N OPTION... -- ARG...: run stalled on N ranks; the caller checks the status
ranks() {
    local size=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    run timeout -k 5 100 "$hvdrun" --no-prefix --grace=30s -n "$size" "${options[@]}" "$stalled" "${@:2}"
    echo "$* on $size: $output"
}

# blames RANK: warnings name this rank, say that it does not answer, and name no other
blames() {
    grep -q "\"big\" has not moved for [0-9]*s: rank $1 ([^)]*) does not answer" <<<"$output"
    ! grep 'has not moved\|has waited' <<<"$output" | grep -v ": rank $1 (" || return 1
}

@test "a rank that stops in an operation is named, whichever it is, and the job goes on with it" {
    local backend culprit
    for backend in shm tcp; do
        for culprit in 0 1; do
            ranks 2 --hvd-backends=$backend --hvd-stall-warn=1s -- gather $culprit 4000 1
            [ "$status" -eq 0 ]
            blames $culprit
        done
    done
}

@test "it is named once among several" {
    ranks 4 --hvd-stall-warn=2s -- gather 0 4500 1
    [ "$status" -eq 0 ]
    blames 0
    [ "$(grep -c 'has not moved' <<<"$output")" -eq 1 ]
    ranks 4 --hvd-stall-warn=2s -- gather 3 4500 1
    [ "$status" -eq 0 ]
    blames 3
    [ "$(grep -c 'has not moved' <<<"$output")" -eq 1 ]
}

# aborts RANK N: all ranks, that one too, were told that it is why the job ended
aborts() {
    [ "$status" -eq 7 ]
    [ "$(grep -c "^rank [0-9]*: .*stall-abort: .*: rank $1 ([^)]*) does not answer" <<<"$output")" -eq "$2" ]
}

@test "stall-abort ends the job, for the stopped rank too once it goes on: each backend and operation" {
    local backend operation
    for backend in shm tcp; do
        for operation in allreduce alltoall small window; do
            [ "$backend $operation" != 'tcp window' ] || continue
            ranks 2 --hvd-backends=$backend --hvd-stall-warn=1s --hvd-stall-abort=2s -- $operation 1 8000 1
            aborts 1 2
        done
    done
    ranks 3 --hvd-stall-warn=0 --hvd-stall-abort=2s -- allreduce 0 8000 1
    aborts 0 3
}

@test "what ends the job is said once, with how many ranks it is told to" {
    local culprit
    for culprit in 0 3; do
        ranks 4 --hvd-stall-warn=1s --hvd-stall-abort=2s -- allreduce $culprit 8000 1
        aborts $culprit 4
        [ "$(grep -c ' error: job: ' <<<"$output")" -eq 1 ]
        has '(told to all 4 ranks)'
    done
}

@test "a loop that spins, and one that always blocks, notice as well" {
    local how
    for how in spin block; do
        ranks 2 --hvd-progress=$how --hvd-stall-warn=1s --hvd-stall-abort=2s -- allreduce 1 8000 1
        aborts 1 2
    done
}

@test "an operation that is slow is not reported: it moves" {
    local backend
    for backend in shm tcp; do
        ranks 2 --hvd-backends=$backend --hvd-stall-warn=3s --hvd-stall-abort=4s -- allreduce 1 400 15
        [ "$status" -eq 0 ]
        [ -z "$output" ]
    done
}

@test "a rank that stops before it leaves is named" {
    local culprit
    for culprit in 0 1; do
        ranks 2 --hvd-stall-warn=1s --hvd-stall-abort=2s -- leave $culprit 5000 1
        [ "$status" -eq 0 ]
        grep -q "hvd_shutdown has waited [0-9]*s for 1 rank: rank $culprit ([^)]*) does not answer" <<<"$output"
    done
}

@test "a rank that stops where MPI starts is named" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'hvd was built without MPI'
    [ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || skip 'sanitizers come first among preloaded libraries'
    local culprit
    for culprit in 0 1; do
        STOP_RANK=$culprit run timeout -k 5 60 "$hvdrun" --no-prefix --grace=1s -n 2 -x LD_PRELOAD="$HVD_BUILD/tests/run/.libs/stop_in_mpi.so" \
            --hvd-backends=mpi --hvd-stall-warn=1s --hvd-stall-abort=2s "$stalled" small -1 0 0
        echo "$output"
        [ "$status" -ne 0 ]
        grep -q "^rank $((1 - culprit)): .*rank $culprit ([^)]*) does not answer" <<<"$output"
    done
}

@test "a job that is suspended as a whole for longer goes on" {
    ranks 3 --hvd-stall-warn=2s --hvd-stall-abort=3s -- allreduce all 5000 1
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

# on NODES ARG...: run stalled on these nodes, as the script nodes describes them
on() {
    unshare --fork --pid --mount-proc --kill-child true 2>/dev/null ||
        skip 'process namespaces cannot be made here: that takes root'
    run timeout -k 5 100 "$HVD_SOURCE/tests/run/nodes" "$@"
    echo "$output"
}

@test "between nodes: shared memory and tcp together" {
    local culprit
    export HVD_BACKENDS=hier-tcp,shm HVD_STALL_WARN=1s HVD_STALL_ABORT=2s
    for culprit in 0 1 2 3; do
        on '0,1 2,3' "$stalled" allreduce $culprit 8000 1
        aborts $culprit 4
    done
    on '0,1 2,3' "$stalled" alltoall 3 8000 1
    aborts 3 4
}

@test "over mpi, under mpirun" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'hvd was built without MPI'
    command -v mpirun >/dev/null || skip 'mpirun is not installed (Debian: openmpi-bin)'
    export HVD_STALL_WARN=1s HVD_STALL_ABORT=2s
    HVD_BACKENDS=mpi on mpirun '0 1' "$stalled" allreduce 1 8000 1
    [ "$status" -ne 0 ]
    grep -q 'stall-abort: .* rank 1 ([^)]*) does not answer' <<<"$output"
    HVD_BACKENDS=shm,hier-mpi on mpirun '0,1 2,3' "$stalled" allreduce 3 8000 1
    [ "$status" -ne 0 ]
    grep -q 'stall-abort: .* rank 3 ([^)]*) does not answer' <<<"$output"
}
