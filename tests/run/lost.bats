#!/usr/bin/env bats
# lost.bats: a rank dies before the ranks are connected: the others name it within seconds. The cases are in lost.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
}

# told CASE BACKENDS [HOW]: ranks 0 and 1 of 3 are told within seconds that rank 2 was lost, and how
told() {
    local rank seconds how=${3:-its process ended without hvd_shutdown}
    run timeout -k 5 100 "$hvdrun" --no-prefix -n 3 --hvd-backends="$2" "$HVD_BUILD/tests/run/lost" "$1"
    echo "$1 over $2: $output"
    for rank in 0 1; do
        grep -Eq "^rank $rank waited [0-9.]+ s: .*rank 2 \(.*\) was lost: $how" <<<"$output"
        seconds=$(sed -n "s/^rank $rank waited \([0-9]*\)\..*/\1/p" <<<"$output")
        [ "$seconds" -lt 5 ]
    done
}

@test "a rank that dies before the first batch of a kind is named within seconds" {
    local case
    for case in small large alltoall; do
        told "$case" tcp,local
    done
}

@test "so is one whose sockets a child keeps open, made by a raw clone" {
    local rank
    run timeout -k 5 100 "$hvdrun" --no-prefix -n 3 --hvd-backends=tcp,local "$HVD_BUILD/tests/run/lost" clone
    echo "$output"
    for rank in 1 2; do
        grep -Eq "^rank $rank waited [0-4]\.[0-9]* s: .*rank 0 \(.*\) was lost: its process ended without hvd_shutdown" <<<"$output"
    done
}

@test "also on other nodes, which only the leader is connected with" {
    local rank why nodes=$HVD_SOURCE/tests/run/network.sh
    why=$("$nodes" check)
    [ -z "$why" ] || skip "$why"
    export RANKS_PER_NODE=2 HVD_START_TIMEOUT=30s HVD_LEASE=10s HVD_NICS=eth0 HVD_BACKENDS=tcp,local
    run timeout -k 5 60 "$nodes" run plain "$HVD_BUILD/tests/run/lost" clone
    echo "$output"
    for rank in 1 2 3 4 5; do
        grep -Eq "^rank $rank waited [0-4]\.[0-9]* s: .*rank 0 \(.*\) was lost: its (process|connection) ended" <<<"$output"
    done
}

@test "so is one that dies while a process set is made" {
    told set tcp,local
    told set shm,tcp,local
}

@test "one that starts another program in its place is named within seconds, and not when that ends" {
    told exec shm 'it started another program \(exec\)'
    told exec tcp 'it started another program \(exec\)'
}

@test "one that closes the descriptors of hvd is named, told itself, and can shut down" {
    local backends
    for backends in shm tcp; do
        told closes $backends 'a descriptor of hvd was closed by the program'
        grep -Eq '^rank 2 waited [0-4]\.[0-9] s: .*a descriptor of hvd was closed by the program' <<<"$output"
        [[ $output != *'opened later is closed'* ]]
    done
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 1 "$HVD_BUILD/tests/run/lost" closes
    echo "$output"
    [ "$status" -eq 0 ]
}

# stop PID: stop a process, and wait until all its threads stand still
stop() {
    local end=$((SECONDS + 20))
    kill -STOP "$1"
    while grep -q '^State:[[:space:]]*[^T[:space:]]' "/proc/$1/task/"*/status; do
        [ $SECONDS -lt $end ]
        sleep 0.01
    done
}

# Rank 3 watches rank 0 alone. Ranks 0 and 1, which watch rank 2, stand still, so that they tell nobody of its end before
# hvdrun ends them.
@test "a rank that sees others only as hvdrun ends them is told which one failed first" {
    local rank pid first second third job end=$((SECONDS + 20))
    timeout -k 5 100 "$hvdrun" --no-prefix -n 4 "$HVD_BUILD/tests/run/lost" ended >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    job=$!
    until [ "$(grep -c '^rank [0-9] is ' "$BATS_TEST_TMPDIR/out")" = 4 ]; do
        [ $SECONDS -lt $end ]
        sleep 0.02
    done
    while read -r _ rank _ pid; do
        case $rank in
        0) first=$pid ;;
        1) second=$pid ;;
        2) third=$pid ;;
        esac
    done <"$BATS_TEST_TMPDIR/out"
    stop "$first"
    stop "$second"
    kill -KILL "$third"
    status=0
    wait "$job" || status=$?
    cat "$BATS_TEST_TMPDIR/out"
    [ "$status" = 137 ]
    grep -q '^rank 3 waited .*: rank 2 (.*) was lost: ' "$BATS_TEST_TMPDIR/out"
    run ! grep 'rank 0 (.*) was lost' "$BATS_TEST_TMPDIR/out"
}
