#!/usr/bin/env bats
# stalled.bats: a rank stands still inside an operation that all ranks agreed on: it is named, and stall-abort or
# hang-abort ends the job. The program is stalled.c. Most of the time ranks stand still, so the jobs of a test run side by
# side.

# shellcheck disable=SC2030,SC2031 # each test has variables of its own

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
    stalled=$HVD_BUILD/tests/run/stalled
    jobs=()
}

# A job that a failed test leaves ends with its time limit's process.
teardown() {
    local job
    for job in "${jobs[@]}"; do kill "${job%% *}" 2>/dev/null || true; done
}

# begin CHECK -- WORD...: run the words in the background; finish will call CHECK with their status and output
begin() {
    local check=() out=$BATS_TEST_TMPDIR/out.${#jobs[@]} folder=$BATS_TEST_TMPDIR/${#jobs[@]}
    mkdir -p "$folder"
    while [ "$1" != -- ]; do
        check+=("$1")
        shift
    done
    TMPDIR=$folder MASTER_PORT=$(free_port) timeout -k 5 100 "${@:2}" >"$out" 2>&1 3>&- &
    jobs+=("$! $out ${check[*]}")
}

# ranks CHECK -- N OPTION... -- ARG...: begin stalled on N ranks
ranks() {
    local check=() size options=()
    while [ "$1" != -- ]; do
        check+=("$1")
        shift
    done
    size=$2
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    begin "${check[@]}" -- "$hvdrun" --no-prefix --grace=30s -n "$size" "${options[@]}" "$stalled" "${@:2}"
}

# Wait for all jobs that were begun, and check each.
finish() {
    local job words
    for job in "${jobs[@]}"; do
        read -ra words <<<"$job"
        status=0
        wait "${words[0]}" || status=$?
        output=$(cat "${words[1]}")
        echo "${words[*]:2}: $status: $output"
        "${words[@]:2}"
    done
    jobs=()
}

# names RANK: the job went on; its warnings name this rank, say that it does not answer, and name no other
names() {
    [ "$status" -eq 0 ]
    grep -q "\"big\", which has not moved for [0-9.]* s: rank $1 ([^)]*) does not answer" <<<"$output"
    ! grep 'has not moved\|, waits for' <<<"$output" | grep -v ": rank $1 (" || return 1
}

# names_once RANK: and there is one warning
names_once() {
    names "$1"
    [ "$(grep -c 'has not moved' <<<"$output")" -eq 1 ]
}

# aborts RANK N [OPTION]: all ranks, that one too, were told that it is why the job ended. It may have stopped when some
# ranks are through with the operation and others are not, and then these are named first.
aborts() {
    [ "$status" -eq 7 ]
    [ "$(grep -c "^rank [0-9]*: .*${3:-stall}-abort: .*[:;] rank $1 ([^)]*) does not answer" <<<"$output")" -eq "$2" ]
}

aborts_saying_it_once() {
    aborts "$1" 4
    [ "$(grep -c ' error: job: ' <<<"$output")" -eq 1 ]
    has '(told to all 4 ranks)'
}

silent() {
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

# leaves RANK: that rank was named before it left, and the job went on with it
leaves() {
    [ "$status" -eq 0 ]
    grep -q "in hvd_shutdown for [0-9.]* s, waits for 1 rank: rank $1 ([^)]*) does not answer" <<<"$output"
}

# is_given_up RANK: the other rank did not wait for it any longer
is_given_up() {
    [ "$status" -eq 1 ]
    grep -q "stall-abort: in hvd_shutdown for [0-9.]* s, waits for 1 rank: rank $1 ([^)]*) does not answer" <<<"$output"
}

@test "a rank that stops in an operation is named, whichever it is, and the job goes on with it" {
    local backend culprit
    for backend in shm tcp; do
        for culprit in 0 1; do
            ranks names $culprit -- 2 --hvd-backends=$backend --hvd-stall-warn=1s -- gather $culprit 3500 1
        done
    done
    finish
}

@test "it is named once among several" {
    ranks names_once 0 -- 4 --hvd-stall-warn=2s -- gather 0 4000 1
    ranks names_once 3 -- 4 --hvd-stall-warn=2s -- gather 3 4000 1
    finish
}

@test "stall-abort ends the job, for the stopped rank too once it goes on: each backend and operation" {
    local backend operation
    for backend in shm tcp; do
        for operation in allreduce alltoall small window; do
            [ "$backend $operation" != 'tcp window' ] || continue
            ranks aborts 1 2 -- 2 --hvd-backends=$backend --hvd-stall-warn=1s --hvd-stall-abort=2s -- $operation 1 4500 1
        done
    done
    finish
}

@test "hang-abort does the same, also without warnings, and where loops spin or always block" {
    local how
    ranks aborts 1 2 hang -- 2 --hvd-stall-warn=1s --hvd-hang-abort=2s -- allreduce 1 4500 1
    ranks aborts 1 2 hang -- 2 --hvd-stall-warn=0 --hvd-hang-abort=2s -- small 1 4500 1
    ranks aborts 0 3 -- 3 --hvd-stall-warn=0 --hvd-stall-abort=2s -- allreduce 0 4500 1
    for how in spin block; do
        ranks aborts 1 2 -- 2 --hvd-progress=$how --hvd-stall-warn=1s --hvd-stall-abort=2s -- allreduce 1 4500 1
    done
    finish
}

# warns_of RANK: a warning says that others wait for this rank, which answers
warns_of() {
    [ "$status" -eq 0 ]
    grep -q "in allreduce \"big\" for [0-9.]* s, waits for 1 rank: rank $1 ([^)]*) last submitted " <<<"$output"
    [[ $output != *abort* ]]
}

# ended_for RANK: that rank was taken for the cause although it answers
ended_for() {
    [ "$status" -eq 7 ]
    grep -q "stall-abort: in allreduce \"big\" for 2[.0-9]* s, waits for 1 rank: rank $1 " <<<"$output"
}

@test "a rank that computes for long is warned of; only stall-abort, which is off, ends the job for it" {
    ranks warns_of 0 -- 2 --hvd-stall-warn=1s --hvd-hang-abort=2s -- compute 0 4500 1
    ranks silent -- 2 --hvd-stall-warn=0 --hvd-hang-abort=2s -- compute 1 4500 1
    ranks ended_for 1 -- 2 --hvd-stall-warn=1s --hvd-stall-abort=2s -- compute 1 4500 1
    finish
}

@test "what ends the job is said once, with how many ranks it is told to" {
    local culprit
    for culprit in 0 3; do
        ranks aborts_saying_it_once $culprit -- 4 --hvd-stall-warn=1s --hvd-stall-abort=2s -- allreduce $culprit 4500 1
    done
    finish
}

@test "an operation that is slow is not reported: it moves" {
    local backend
    for backend in shm tcp; do
        ranks silent -- 2 --hvd-backends=$backend --hvd-stall-warn=3s --hvd-stall-abort=4s -- allreduce 1 400 12
    done
    finish
}

@test "a rank that stops before it leaves is named, and given up after a while" {
    local culprit
    for culprit in 0 1; do
        ranks leaves $culprit -- 2 --hvd-stall-warn=1s -- leave $culprit 4500 1
        ranks is_given_up $culprit -- 2 --hvd-stall-warn=1s --hvd-stall-abort=2s -- leave $culprit 4500 1
    done
    finish
}

@test "a job that is suspended as a whole for longer goes on" {
    ranks silent -- 3 --hvd-stall-warn=2s --hvd-stall-abort=3s -- allreduce all 5000 1
    finish
}

# on CHECK -- NODES ARG...: begin stalled on these nodes, as the script nodes describes them
on() {
    local check=()
    unshare --fork --pid --mount-proc --kill-child true 2>/dev/null ||
        skip 'process namespaces cannot be made here: that takes root'
    while [ "$1" != -- ]; do
        check+=("$1")
        shift
    done
    begin "${check[@]}" -- "$HVD_SOURCE/tests/run/nodes" "${@:2}"
}

@test "between nodes: shared memory and tcp together" {
    local culprit
    export HVD_BACKENDS=hier-tcp,shm HVD_STALL_WARN=1s HVD_STALL_ABORT=2s
    for culprit in 0 1 2 3; do
        on aborts $culprit 4 -- '0,1 2,3' "$stalled" allreduce $culprit 4500 1
    done
    on aborts 3 4 -- '0,1 2,3' "$stalled" alltoall 3 9000 1
    finish
}

# fails_for RANK: mpirun ends the other ranks, and at least one was told why
fails_for() {
    [ "$status" -ne 0 ]
    grep -q "stall-abort: .* rank $1 ([^)]*) does not answer" <<<"$output"
}

@test "over mpi, under mpirun" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'hvd was built without MPI'
    command -v mpirun >/dev/null || skip 'mpirun is not installed (Debian: openmpi-bin)'
    export HVD_STALL_WARN=1s HVD_STALL_ABORT=2s
    HVD_BACKENDS=mpi on fails_for 1 -- mpirun '0 1' "$stalled" allreduce 1 4500 1
    HVD_BACKENDS=shm,hier-mpi on fails_for 3 -- mpirun '0,1 2,3' "$stalled" allreduce 3 4500 1
    finish
}

@test "a rank that stops where MPI starts is named, and the job ends" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'hvd was built without MPI'
    [ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || skip 'sanitizers come first among preloaded libraries'
    local culprit
    for culprit in 0 1; do
        STOP_RANK=$culprit run timeout -k 5 60 "$hvdrun" --no-prefix --grace=1s -n 3 \
            -x LD_PRELOAD="$HVD_BUILD/tests/run/.libs/stop_in_mpi.so" \
            --hvd-backends=mpi --hvd-stall-warn=1s --hvd-hang-abort=2s "$HVD_BUILD/examples/hello"
        echo "$output"
        [ "$status" -eq $((128 + 15)) ]
        local sentence="the start of MPI has waited [0-9]*s for a rank that does not come to it: rank $culprit ([^)]*) is stopped"
        [ "$(grep -c "warning: stall: $sentence" <<<"$output")" -eq 1 ]
        [ "$(grep -c "error: stall: hang-abort: $sentence" <<<"$output")" -eq 1 ]
    done
}
