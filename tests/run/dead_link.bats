#!/usr/bin/env bats
# dead_link.bats: links that die while tensors travel are noticed in time, and both ends named; slow ones are not dead. The
# cases are in lost.c; network.sh makes the nodes and harms the links.
# Every test is a process of its own: shellcheck disable=SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0

setup() {
    load setup
    nodes=$HVD_SOURCE/tests/run/network.sh
    lost=$HVD_BUILD/tests/run/lost
    local why
    why=$("$nodes" check)
    [ -z "$why" ] || skip "$why"
    export HVD_START_TIMEOUT=30s HVD_LEASE=2s HVD_NICS=eth0 HVD_BACKENDS=tcp,local HARM_READY=$BATS_TEST_TMPDIR/ready
}

# after HARM CASE: all ranks are told within seconds, and the first cause names both ends of a link and the time
after() {
    local rank seconds
    rm -f "$HARM_READY"
    run timeout -k 5 60 "$nodes" harm "$1" "$lost" "$2"
    echo "$1, $2: $output"
    for rank in 0 1 2; do
        seconds=$(sed -n "s/^rank $rank waited \([0-9]*\)\..*/\1/p" <<<"$output")
        [ -n "$seconds" ] && [ "$seconds" -lt 8 ]
    done
    grep -Eq "the connection of rank [0-2] \(n[1-3]\) at 10\.81\.0\.[1-3] with rank [0-2] \(n[1-3]\) at 10\.81\.0\.[1-3] is dead: nothing was heard over it for 2 s \(--hvd-lease\)|there nothing was heard over it for 2 s" <<<"$output"
}

# nobody says that its connection with itself broke
no_self() {
    ! grep -E 'connection of rank ([0-2]) .* with rank \1 ' <<<"$output"
}

@test "a cable that is cut between two of three nodes" {
    local case
    for case in link-alltoall link-allreduce link-messages link-small; do
        after cut "$case"
        no_self
    done
}

@test "hvdinfo ps names a rank at the cut link, and the address that it does not reach" {
    local end=$((SECONDS + 20 * PATIENCE)) answer=$BATS_TEST_TMPDIR/answer job
    export HVD_LEASE=60s
    timeout -k 5 120 "$nodes" harm cut "$lost" link-allreduce >/dev/null 2>&1 3>&- &
    job=$!
    until "$HVD_BUILD/bin/hvdinfo" ps "$job" >"$answer" 2>&1; [ $SECONDS -ge $end ] ||
        grep -Eq '^  rank [12] .*: in allreduce "travels" .*; nothing gets through to 10\.81\.0\.[23]$' "$answer"; do
        sleep 0.1
    done
    kill "$job"
    wait "$job" || true
    cat "$answer"
    grep -Eq '^  rank [12] .*; nothing gets through to 10\.81\.0\.[23]$' "$answer"
    ! grep '^  rank 0 .*gets through' "$answer" || return 1
}

@test "a link that loses everything in one direction" {
    local case
    for case in link-alltoall link-allreduce link-messages link-small; do
        after one-way "$case"
        no_self
    done
}

@test "a node whose cable is pulled" {
    local case
    for case in link-alltoall link-allreduce link-small; do
        after unplugged "$case"
        no_self
    done
}

@test "a rank that reads nothing for long, and a gap shorter than the lease, are no loss" {
    HARM_GAP=0.8 run timeout -k 5 60 "$nodes" harm gap "$lost" slow
    echo "$output"
    [ "$status" -eq 0 ]
}
