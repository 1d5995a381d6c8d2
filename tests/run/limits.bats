#!/usr/bin/env bats
# limits.bats: many sets at once, very large tensors, sub-jobs, stops, stalls, and the files that are written about them.
# The cases are in limits.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
    export LIMITS_DIR=$BATS_TEST_TMPDIR
}

# start N CASE [OPTION...]: run the case on N ranks; the caller checks the status
start() {
    run_case "$1" limits "${@:2}"
}

ranks() {
    start "$@"
    [ "$status" -eq 0 ]
}

# needs_memory GIB: skip the test if the machine has less memory. It takes long where others use that, too.
# shellcheck disable=SC2034 # setup.bash uses it
needs_memory() {
    local available
    case_seconds=300
    available=$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo)
    [ "$available" -ge "$1" ] || skip "this needs $1 GiB of memory, and $available are available"
}

# valid_json FILE...: each file is valid JSON
valid_json() {
    local file
    command -v python3 >/dev/null || skip 'python3, which looks at JSON, is not installed'
    for file; do
        python3 -m json.tool "$file" >/dev/null || return 1
    done
}

@test "seven ranks in eight sets that overlap, a thread for each, do not wait for each other for ever" {
    ranks 7 crossing
    ranks 7 crossing --hvd-fusion=0
}

@test "as many tensors in a group as there may be" {
    ranks 1 group
    ranks 3 group
}

@test "thousands of operations in flight at once" {
    ranks 3 many
}

@test "an allreduce of more than 2^31 elements" {
    needs_memory 6
    ranks 2 large-allreduce
}

@test "a broadcast of more than 2^31 elements and 2^32 bytes" {
    needs_memory 11
    ranks 2 large-broadcast
}

@test "an alltoall that sends more than 2^31 rows" {
    needs_memory 6
    ranks 2 large-alltoall
}

@test "two jobs of seven ranks: three and four, each with a set of its own from the start" {
    ranks 7 part
}

@test "each rank a job of its own" {
    ranks 3 alone
}

@test "lists of ranks that can be no job are refused at once" {
    ranks 2 part-arguments
}

@test "one rank's set that can be none ends the start of all" {
    ranks 3 part-sets
}

@test "all ranks are told to stop at the same call" {
    ranks 1 stop
    ranks 4 stop
    ranks 3 stop-signal --hvd-stop-signal=USR1
}

@test "names that never come again take no more memory than the cache's limit" {
    ranks 2 names
    ranks 2 names --hvd-cache=1000
}

@test "a stall is told with the tensor, who is missing, and what it did last" {
    ranks 3 stall --hvd-stall-warn=1s
    has '"late"'
    has 'rank 2 ('
    has '"early"'
}

@test "no stall, no word" {
    ranks 3 stall
    [ -z "$output" ]
}

@test "a stall that lasts fails the job, and is said to be why" {
    start 3 stall-abort --hvd-stall-warn=1s --hvd-stall-abort=2s --grace=20s
    [ "$status" -eq 7 ]
    [ "$(grep -c '^rank [01]: .*"late".*stall-abort' <<<"$output")" -eq 2 ]
}

@test "the flight record is written at SIGUSR2, and the job goes on" {
    mkdir "$BATS_TEST_TMPDIR/dump"
    ranks 2 record --hvd-dump-dir="$BATS_TEST_TMPDIR/dump"
    cat "$BATS_TEST_TMPDIR"/dump/*
    [ "$(find "$BATS_TEST_TMPDIR/dump" -type f | wc -l)" -eq 1 ]
    [ "$(grep -c 'record' "$BATS_TEST_TMPDIR"/dump/*)" -ge 255 ]
    grep -q '299' "$BATS_TEST_TMPDIR"/dump/*
}

@test "the flight record is written where the job fails" {
    mkdir "$BATS_TEST_TMPDIR/dump"
    start 3 lost --hvd-dump-dir="$BATS_TEST_TMPDIR/dump" --grace=20s
    [ "$status" -ne 0 ]
    cat "$BATS_TEST_TMPDIR"/dump/*
    [ "$(find "$BATS_TEST_TMPDIR/dump" -type f | wc -l)" -eq 2 ]
    [ "$(grep -c ' error: job: .* was lost: ' <<<"$output")" -eq 1 ]
    grep -q 'waits' "$BATS_TEST_TMPDIR"/dump/*
}

@test "timelines are valid, whatever the names, and hvdinfo trace merges them" {
    local property=$HVD_BUILD/tests/run/property
    mkdir "$BATS_TEST_TMPDIR/timeline"
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 3 --hvd-timeline="$BATS_TEST_TMPDIR/timeline" "$property" 5 200 3
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(find "$BATS_TEST_TMPDIR/timeline" -type f | wc -l)" -eq 3 ]
    valid_json "$BATS_TEST_TMPDIR"/timeline/*
    run timeout 30 "$HVD_BUILD/bin/hvdinfo" trace "$BATS_TEST_TMPDIR/timeline"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a timeline that begins and ends at run time holds what is between" {
    ranks 2 timeline
    valid_json "$BATS_TEST_TMPDIR"/*.json
    grep -q 'inside' "$BATS_TEST_TMPDIR"/*.json
    run ! grep -q 'before\|behind' "$BATS_TEST_TMPDIR"/*.json
}

@test "a timeline is valid after a crash" {
    mkdir "$BATS_TEST_TMPDIR/timeline"
    start 3 lost --hvd-timeline="$BATS_TEST_TMPDIR/timeline" --grace=20s
    [ "$status" -ne 0 ]
    [ "$(find "$BATS_TEST_TMPDIR/timeline" -type f | wc -l)" -eq 3 ]
    valid_json "$BATS_TEST_TMPDIR"/timeline/*
}

@test "a timeline that may not grow ends with a warning, and stays valid" {
    mkdir "$BATS_TEST_TMPDIR/timeline"
    run timeout -k 5 60 bash -c 'ulimit -f 8; exec "$@"' limited "$hvdrun" --no-prefix -n 1 \
        --hvd-timeline="$BATS_TEST_TMPDIR/timeline" "$HVD_BUILD/examples/train" --epochs=3
    echo "$output"
    [ "$status" -eq 0 ]
    has "rank-0.json cannot be written: File too large; raise \`ulimit -f\`; it ends here"
    valid_json "$BATS_TEST_TMPDIR"/timeline/*
}
