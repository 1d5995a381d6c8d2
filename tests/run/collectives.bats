#!/usr/bin/env bats
# collectives.bats: tests libhvd's promises with real ranks on this machine. The cases are in collectives.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    collectives=$HVD_BUILD/tests/run/collectives
    need_hvdrun
    export COLLECTIVES_DIR=$BATS_TEST_TMPDIR
}

# ranks N CASE [OPTIONS]: run the case on N ranks, which must exit with 0
ranks() {
    good_case "$1" collectives "${@:2}"
}

# each CASE [N...]: run the case on 1, 2 and 4 ranks, or on N ranks for each N
each() {
    local count case=$1
    shift
    [ $# -gt 0 ] || set -- 1 2 4
    for count in "$@"; do
        rm -f "$BATS_TEST_TMPDIR"/[0-9]*
        ranks "$count" "$case"
    done
}

# Print how often a line is in the output.
times() {
    grep -cxF -- "$1" <<<"$output" || true
}

@test "allreduce: every type, sum and average, in and out of place, bits as a sum in the order of ranks" {
    each allreduce
}

@test "any order on any rank, by name and then by number" {
    each order 1 2 3 4 7
}

@test "the same without fusion, and with a fusion buffer of one page" {
    ranks 3 order --hvd-fusion=0
    ranks 3 order --hvd-fusion=4K
}

@test "broadcast from every root, in and out of place" {
    each broadcast 1 2 3 7
}

@test "names that come again, with other memory, roots and rows" {
    each again 1 2 3 7
}

@test "a barrier holds until the last has come" {
    each barrier
}

@test "callbacks may submit, and may not wait" {
    each callback
}

@test "what nobody waits for gets done" {
    each test
}

@test "many threads of a rank at once" {
    each threads
}

@test "bad arguments and names in flight are refused and leave no trace" {
    each errors
}

@test "a forked child has no part in the job and does no harm" {
    each fork
}

@test "a mismatch is an error on every rank that names two ranks and both values" {
    local here
    here=$(hostname)
    ranks 3 mismatch
    # each comes twice: when the name is new, and when it is cached
    [ "$(times "allreduce \"w\": rank 2 ($here) has float32[2,3], rank 0 ($here) has float32[2,4]; give all ranks the same")" -eq 6 ]
    [ "$(times "allreduce \"w\": rank 2 ($here) has float64[2,4], rank 0 ($here) has float32[2,4]; give all ranks the same")" -eq 6 ]
    [ "$(times "allreduce \"w\": rank 2 ($here) has average, rank 0 ($here) has sum; give all ranks the same")" -eq 6 ]
    [ "$(times "\"w\": rank 2 ($here) has broadcast, rank 0 ($here) has allreduce; give all ranks the same")" -eq 6 ]
}

@test "a rank that leaves while others wait for it: they are told who, and all end well" {
    ranks 4 shutdown
    grep -xF "allreduce \"pending\": rank 0 ($(hostname)) has called hvd_shutdown" <<<"$output"
}

@test "a rank that dies: the others are told who within seconds, though its child holds its sockets" {
    local begin=$SECONDS
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 4 --grace=20s "$collectives" lost
    echo "$output"
    [ "$status" -eq 137 ]
    [ "$(grep -c '^allreduce "waits": rank 3 (.*) was lost' <<<"$output")" -eq 3 ]
    grep -q '^hvd: rank 3 ' <<<"$output"
    [ $((SECONDS - begin)) -le $((10 * PATIENCE)) ]
}

@test "options that differ between ranks are named by everyone" {
    # shellcheck disable=SC2016 # for the rank's shell
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --grace=20s \
        sh -c 'HVD_FUSION=$((PMIX_RANK + 1))M exec "$1" allreduce' sh "$collectives"
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'option fusion: rank 1 .* has 2M set by environment (HVD_FUSION), rank 0 .* has 1M' <<<"$output"
}

@test "more fusion buffer than the node has memory is refused, with the sum" {
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 8 --hvd-fusion=16G "$collectives" allreduce
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'fusion=16G for 8 ranks on .* needs 128G, but the node has' <<<"$output"
}

@test "a rank that never joins: the others give up in time and name the option" {
    local begin=$SECONDS
    # shellcheck disable=SC2016 # for the rank's shell
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 3 --grace=20s --hvd-start-timeout=2s \
        sh -c '[ "$PMIX_RANK" != 1 ] || exec sleep 30; exec "$1" allreduce' sh "$collectives"
    echo "$output"
    [ "$status" -ne 0 ]
    grep -q 'start-timeout' <<<"$output"
    [ $((SECONDS - begin)) -le $((20 * PATIENCE)) ]
}

@test "nothing is left behind in shared memory" {
    [ "$(id -u)" -eq 0 ] || skip 'a /dev/shm of its own needs root'
    # shellcheck disable=SC2016 # for the inner shell
    run unshare --mount sh -c 'mount -t tmpfs none /dev/shm && timeout 60 "$@" && ls -A /dev/shm' \
        sh "$hvdrun" --no-prefix -n 4 "$collectives" order
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}
