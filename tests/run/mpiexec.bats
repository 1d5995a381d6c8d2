#!/usr/bin/env bats
# shellcheck disable=SC2016 # the ranks' shells expand their own variables
# mpiexec.bats: ranks that MPICH's mpiexec starts, and that find each other by PMI-1.

bats_require_minimum_version 1.5.0

setup() {
    load setup
    command -v mpiexec.hydra >/dev/null || skip "mpiexec.hydra (Debian: mpich) is not installed"
    export COLLECTIVES_DIR=$BATS_TEST_TMPDIR
}

# ranks N PROGRAM [ARG...]: a time limit of its own
ranks() {
    local count=$1
    shift
    run timeout -k 5 60 mpiexec.hydra -n "$count" "$@" </dev/null
    echo "$output"
}

@test "ranks of mpiexec find each other by PMI, and exchange blobs longer than its values" {
    local count rank
    for count in 1 2 4; do
        ranks "$count" "$HVD_BUILD/tests/run/wireup_probe"
        [ "$status" -eq 0 ]
        for ((rank = 0; rank < count; rank++)); do
            has "ok rank=$rank size=$count local=$rank/$count "
        done
        [ "$(grep -c provider=pmi <<<"$output")" -eq "$count" ]
    done
}

@test "collectives on two and on four ranks" {
    local count
    for count in 2 4; do
        rm -f "$BATS_TEST_TMPDIR"/[0-9]*
        ranks "$count" "$HVD_BUILD/tests/run/collectives" order
        [ "$status" -eq 0 ]
    done
}

@test "after hvd_shutdown, or a start that failed, the ranks start again" {
    ranks 4 "$HVD_BUILD/tests/run/start" again
    [ "$status" -eq 0 ]
}

@test "a rank that ends early and well does not end the job" {
    ranks 2 sh -c '"$0"; [ "$PMI_RANK" = 0 ] || { sleep 1; echo lives; }' "$HVD_BUILD/examples/hello"
    [ "$status" -eq 0 ]
    has lives
}

@test "a rank that dies while the others wait for it ends the job" {
    SECONDS=0
    ranks 3 "$HVD_BUILD/tests/run/wireup_probe" leave
    [ "$status" -ne 0 ]
    [ "$SECONDS" -lt $((30 * PATIENCE)) ]
}

@test "a rank that never calls hvd_init does not keep the job" {
    HVD_START_TIMEOUT=2s ranks 2 sh -c '[ "$PMI_RANK" = 0 ] || exec sleep 50; exec "$0"' "$HVD_BUILD/examples/hello"
    [ "$status" -ne 0 ]
    has 'not all ranks joined in time, and PMI does not say which'
}

@test "a program that has lost the launcher's connection says so" {
    # not sh: dash knows descriptors of one digit only
    ranks 2 bash -c 'exec 3>&-; eval "exec $PMI_FD>&-"; exec "$0"' "$HVD_BUILD/examples/hello"
    [ "$status" -ne 0 ]
    has 'is no connection to a launcher: a program between the launcher and this one has closed it'
}
