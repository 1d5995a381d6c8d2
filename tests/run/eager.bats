#!/usr/bin/env bats
# eager.bats: small allreduces whose inputs travel with the agreement.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
    eager=$HVD_BUILD/tests/run/eager
}

@test "they have the same bits as those that a backend carries" {
    for ranks in 2 3 5; do
        run timeout 60 "$hvdrun" -n $ranks --no-prefix "$eager" bits
        echo "$output"
    [ "$status" -eq 0 ]
        [ -z "$output" ]
    done
}

@test "sets that overlap have each their own inputs" {
    run timeout 60 "$hvdrun" -n 4 --no-prefix "$eager" sets
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "where a rank's input does not travel, or it has joined, the sum is right too" {
    run timeout 60 "$hvdrun" -n 3 --no-prefix "$eager" mixed
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "another shape under a known name is a mismatch on all ranks" {
    run timeout 60 "$hvdrun" -n 3 --no-prefix "$eager" mismatch
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "a timeline shows that only the first one of a name is transferred" {
    run timeout 60 "$hvdrun" -n 2 --no-prefix --hvd-timeline="$BATS_TEST_TMPDIR" "$eager" shown
    echo "$output"
    [ "$status" -eq 0 ]
    for rank in 0 1; do
        [ "$(grep -c '"name":"once"' "$BATS_TEST_TMPDIR/rank-$rank.json")" -eq 5 ]
        # or another one that was submitted at the same moment as an operation of hvd's own
        [ "$(grep -c '"name":"wire"' "$BATS_TEST_TMPDIR/rank-$rank.json")" -lt 5 ]
    done
}
