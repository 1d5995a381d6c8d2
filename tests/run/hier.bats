#!/usr/bin/env bats
# hier.bats: jobs on several nodes with several ranks each: shared memory inside the nodes, tcp or mpi between them. The
# script nodes simulates the nodes with process namespaces; for real nodes see tests/cluster/hier.bats.

# shellcheck disable=SC2030,SC2031 # each test has variables of its own

bats_require_minimum_version 1.5.0
load setup

setup() {
    unshare --fork --pid --mount-proc --kill-child true 2>/dev/null ||
        skip 'process namespaces cannot be made here: that takes root'
    export TMPDIR=$BATS_TEST_TMPDIR MASTER_PORT
    MASTER_PORT=$(free_port)
    tests=$HVD_BUILD/tests/run
}

# on "NODES" PROGRAM [ARG...]: run the program as a job on these nodes; the script nodes describes NODES
on() {
    run timeout -k 5 100 "$HVD_SOURCE/tests/run/nodes" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# firsts N SET BACKEND: N members of the set have logged that this backend carries its first tensors
firsts() {
    [ "$(grep -c "process set $2: first tensors over $3\$" <<<"$output")" -eq "$1" ]
}

# random SEED COUNT NODES: check random operations of all kinds against a reference, as property.bats does
random() {
    local ranks
    ranks=$(grep -o '[0-9]*' <<<"$3" | wc -l)
    on "$3" "$tests/property" "$1" "$2" "$ranks"
}

@test "auto takes hier-tcp where a node has several of a set's ranks, and tcp where each has one" {
    export HVD_LOG=debug
    on '0,1 2,3' "$tests/backends" sets
    firsts 4 0 hier-tcp
    firsts 2 1 shm
    firsts 2 2 shm
    firsts 2 3 tcp
    has 'hier-tcp is not for process set 3: each rank is on a node of its own'
    HVD_BACKENDS=tcp,hier-tcp on '0,1 2,3' "$tests/backends" sets
    firsts 4 0 tcp
}

# spread RANKS NODES STEP: the words of on, where rank R is on node R * STEP mod NODES
spread() {
    local rank node
    for ((node = 0; node < $2; node++)); do
        for ((rank = 0; rank < $1; rank++)); do
            ((rank * $3 % $2 != node)) || echo -n "$rank,"
        done
        echo -n ' '
    done | sed 's/, / /g'
}

# joined RANKS: all of them have reduced together
joined() {
    [ "$(grep -c " sum $1\$" <<<"$output")" -eq "$1" ]
}

@test "the leaders of many nodes find each other, however the ranks are spread" {
    on "$(spread 50 25 1)" "$tests/network"
    joined 50
    on "$(spread 50 25 7)" "$tests/network"
    joined 50
    on '0,1,2 3,4,5,6,7,8 9 10,18 11 12 13,30,31 14 15,16,17 19 20 21,29 22 23 24,25,26,27 28 32 33,34 35' "$tests/network"
    joined 36
}

@test "the leaders of many nodes find each other by PMIx" {
    command -v mpirun >/dev/null || skip 'mpirun is not installed (Debian: openmpi-bin)'
    on mpirun "$(spread 40 20 1)" "$tests/network"
    joined 40
}

# more N CONNECTIONS: N ranks have made this many connections for the first alltoall
more() {
    [ "$(grep -c "has $2 more connections\$" <<<"$output")" -eq "$1" ]
}

@test "an alltoall goes by hier-tcp between nodes of as many ranks each: one connection to each other node" {
    HVD_BACKENDS=hier-tcp on '0,1 2,3' "$tests/backends" alltoall
    more 4 1
    HVD_BACKENDS=hier-tcp on '0,1 2,3 4,5' "$tests/backends" alltoall
    more 6 2
}

@test "an alltoall of other nodes goes by tcp, with connections between all" {
    on '0,1,2 3' "$tests/backends" alltoall
    more 4 3
    HVD_BACKENDS=hier-tcp run timeout -k 5 100 "$HVD_SOURCE/tests/run/nodes" '0,1,2 3' "$tests/backends" alltoall
    echo "$output"
    [ "$status" -ne 0 ]
    has 'see the option backends'
}

@test "ranks that are dealt out to the nodes in turn go along the ring, and the log says why" {
    export HVD_LOG=debug
    on '0,2 1,3' "$tests/backends" sets
    firsts 4 0 tcp
    has 'hier-tcp is not for all ranks: ranks of other nodes are between those of a node'
}

@test "alone it has nothing for sets inside a node: the option is named" {
    HVD_BACKENDS=hier-tcp run timeout -k 5 100 "$HVD_SOURCE/tests/run/nodes" '0,1 2,3' "$tests/backends" sets
    echo "$output"
    [ "$status" -ne 0 ]
    has 'see the option backends'
}

@test "random operations of all kinds are right on nodes of all sizes" {
    random 201 200 '0,1 2,3'
    random 202 150 '0 1,2,3'
    HVD_FUSION=4K random 203 150 '0,1,2 3 4,5'
    HVD_BACKENDS=shm,hier-tcp,tcp random 204 150 '0,1 2,3,4'
    random 207 150 '0,1 2,3 4,5'
    HVD_FUSION=64K random 208 150 '0,1,2 3,4,5'
}

@test "calls of all sorts work: order, threads, fork and the end" {
    local case
    export COLLECTIVES_DIR=$BATS_TEST_TMPDIR
    for case in allreduce order broadcast callback threads fork shutdown; do
        rm -f "$BATS_TEST_TMPDIR"/[0-9]*
        on '0,1 2,3' "$tests/collectives" "$case"
    done
}

@test "a rank that dies while tensors travel: the others say which, and end" {
    local out=$BATS_TEST_TMPDIR/out begin
    # shellcheck disable=SC2016,SC2094 # for the rank's shell, which reads what the job writes
    HVD_KILL_WAIT=5s timeout -k 5 100 "$HVD_SOURCE/tests/run/nodes" '0,1 2,3' sh -c '
        [ "$RANK" = 3 ] || exec "$1" --epochs=100000
        "$1" --epochs=100000 &
        until grep -q "^epoch 3 " "$0"; do sleep 0.05; done
        kill -KILL $!' "$out" "$HVD_BUILD/examples/train" >"$out" 2>&1 3>&- &
    # shellcheck disable=SC2016 # for that shell
    timeout 60 sh -c 'until grep -q "^epoch 3 " "$1" 2>/dev/null; do sleep 0.05; done' sh "$out"
    begin=$SECONDS status=0
    wait $! || status=$?
    cat "$out"
    [ "$status" -ne 0 ]
    [ "$status" -ne 124 ]
    [ $((SECONDS - begin)) -le $((20 * PATIENCE)) ]
    grep -q 'rank 3 (.*) was lost' "$out"
}

@test "over mpi, under mpirun" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'hvd was built without MPI'
    command -v mpirun >/dev/null || skip 'mpirun is not installed (Debian: openmpi-bin)'
    export HVD_BACKENDS=shm,hier-mpi,mpi
    HVD_LOG=debug on mpirun '0,1 2,3' "$tests/backends" sets
    firsts 4 0 hier-mpi
    firsts 2 1 shm
    firsts 2 3 mpi
    on mpirun '0,1 2,3' "$tests/property" 205 200 4
    on mpirun '0 1,2,3 4' "$tests/property" 206 100 5
    HVD_BACKENDS=hier-mpi on mpirun '0,1 2,3' "$tests/backends" alltoall
    HVD_LOG=debug on mpirun '0,1,2,3 4,5,6' "$tests/backends" rooms
    has 'hier-mpi carries nothing in process set'
    firsts 7 0 hier-mpi
}
