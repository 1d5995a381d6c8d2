#!/usr/bin/env bats
# lost.bats: a rank dies before the ranks are connected: the others name it within seconds. The cases are in lost.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
}

# told CASE BACKENDS: ranks 0 and 1 of 3 are told within seconds that rank 2 was lost
told() {
    local rank seconds
    run timeout -k 5 100 "$hvdrun" --no-prefix -n 3 --hvd-backends="$2" "$HVD_BUILD/tests/run/lost" "$1"
    echo "$1 over $2: $output"
    for rank in 0 1; do
        grep -Eq "^rank $rank waited [0-9.]+ s: .*rank 2 \(.*\) was lost: its process ended without hvd_shutdown" <<<"$output"
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
    # libtool's wrapper links the program on its first run, which several processes must not do at the same time
    timeout 20 "$HVD_BUILD/tests/run/lost" none >"$BATS_TEST_TMPDIR/first" 2>&1 </dev/null || true
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
