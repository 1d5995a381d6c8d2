#!/usr/bin/env bats
# bound.bats: how hvd_init places ranks that no launcher has placed. The tests start the ranks by hand, on the first two
# CPUs that the tests themselves may use.
# shellcheck disable=SC2154 # bats sets output and status

setup() {
    load setup
    bound=$HVD_BUILD/tests/run/bound
    "$HVD_BUILD/bin/hvdinfo" map --tasks=1 >/dev/null 2>&1 || skip 'hwloc is not built in, or cannot load this machine'
    unset OMP_NUM_THREADS OMP_PLACES
    mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r first last; do
        seq "$first" "${last:-$first}"
    done)
    [ "${#cpus[@]}" -ge 2 ] || skip 'this test may run on one CPU only'
    a=${cpus[0]} b=${cpus[1]}
}

# start N [ARGUMENT ...]: start N ranks on CPUs a and b, or on the CPUs in $of_rank_K; sets status and output as run does.
start() {
    local size=$1 rank of pids=()
    shift
    export WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT HVD_JOB_KEY=a-secret-of-the-test HVD_START_TIMEOUT=30s
    MASTER_PORT=$(free_port)
    for ((rank = 0; rank < size; rank++)); do
        of=of_rank_$rank
        RANK=$rank timeout 40 taskset -c "${!of:-$a,$b}" "$bound" "$@" >"$BATS_TEST_TMPDIR/$rank.out" 2>&1 3>&- &
        pids+=($!)
    done
    await_ranks "${pids[@]}"
}

# runs RANK WHERE WHO ...: the threads WHO of the rank may run on the CPUs WHERE
runs() {
    local rank=$1 where=$2 who
    shift 2
    for who in "$@"; do
        has "rank $rank $who $where"
    done
}

@test "ranks that nobody has bound share what they have, with all their threads, for good" {
    start 2 "$b"
    [ "$status" -eq 0 ]
    runs 0 "$a" main beside later again
    runs 1 "$b" main beside later again
    runs 0 "$b" apart
    has "rank 0 HVD_PLACED=hvd,OMP_NUM_THREADS,OMP_PLACES"
    has "rank 1 OMP_NUM_THREADS=1"
    has "rank 1 OMP_PLACES=threads"
}

@test "what the user has set stays" {
    export OMP_NUM_THREADS=7
    start 2
    [ "$status" -eq 0 ]
    has "rank 0 OMP_NUM_THREADS=7"
    has "rank 0 HVD_PLACED=hvd,OMP_PLACES"
}

@test "ranks that somebody has bound stay where they are, unless they are to be moved" {
    of_rank_0=$b of_rank_1=$a HVD_BIND=verbose start 2
    [ "$status" -eq 0 ]
    runs 0 "$b" main beside later
    runs 1 "$a" main beside later
    has "rank 0 HVD_PLACED=-"
    has "task 0: cpus $b: bound before hvd_init, and kept; --hvd-bind=force would place it"
    of_rank_0=$b of_rank_1=$a HVD_BIND=force start 2
    [ "$status" -eq 0 ]
    runs 0 "$a" main beside later
    runs 1 "$b" main beside later
}

@test "a rank that its launcher has placed is not placed again" {
    HVD_PLACED=somebody start 2
    [ "$status" -eq 0 ]
    runs 0 "$a,$b" main beside later
    runs 1 "$a,$b" main beside later
}

@test "none leaves them where they are, and says so" {
    HVD_BIND=none,verbose start 2
    [ "$status" -eq 0 ]
    runs 0 "$a,$b" main beside later
    runs 1 "$a,$b" main beside later
    has "bind: task 1: cpus "
}

@test "verbose prints one true line a task, and what is to be known of all" {
    HVD_BIND=core,verbose start 3
    [ "$status" -eq 0 ]
    local rank
    for rank in 0 1 2; do
        [ "$(grep -c "bind: task $rank: cpus " <<<"$output")" -eq 1 ]
        runs "$rank" "$(sed -n "s/.*bind: task $rank: cpus \([0-9,-]*\),.*/\1/p" <<<"$output")" main
    done
    [ "$(grep -c '3 tasks share 2 cores' <<<"$output")" -eq 1 ]
}

@test "resource sets are made of what the ranks have" {
    HVD_RS=tasks:2,cpus:2,bind:packed:1 start 2
    [ "$status" -eq 0 ]
    runs 0 "$a" main
    runs 1 "$b" main
}

@test "what cannot be done is an error where it was asked for" {
    HVD_BIND=gpu start 2
    [ "$status" -ne 0 ]
    [ "$(grep -c 'hvd_init: .*no GPU is granted on this node' <<<"$output")" -eq 2 ]
}

@test "who wants nothing bound has that on a machine that cannot be looked at" {
    export HWLOC_XMLFILE=/nowhere HWLOC_COMPONENTS=xml,stop
    HVD_BIND=none start 2
    [ "$status" -eq 0 ]
    runs 0 "$a,$b" main
    runs 1 "$a,$b" main
    HVD_BIND=core start 2
    [ "$status" -ne 0 ] || skip 'hwloc finds this machine all the same'
}

@test "a lone rank has all that it was given" {
    start 1
    [ "$status" -eq 0 ]
    runs 0 "$a,$b" main beside later
    has "rank 0 HVD_PLACED=-"
}
