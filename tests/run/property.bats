#!/usr/bin/env bats
# property.bats: random operations, whose results must be those that a single process computes; see property.c. A failure
# prints how to reproduce it. With PROPERTY_SEED=N in the environment the operations are other ones.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    property=$HVD_BUILD/tests/run/property
    need_hvdrun
    seed=${PROPERTY_SEED:-1}
    node=()
}

# ranks N COUNT [OPTION...] [-- KIND]: run COUNT operations on N ranks, each of which is started by the command in $node
ranks() {
    local size=$1 count=$2 options=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    run timeout -k 5 100 "$hvdrun" --no-prefix -n "$size" "${options[@]}" "${node[@]}" "$property" "$seed" "$count" "$size" "${@:2}"
    echo "$output"
    [ "$status" -eq 0 ]
    seed=$((seed + 1))
}

@test "one rank" {
    ranks 1 300
    ranks 1 300
}

@test "two ranks" {
    ranks 2 250
    ranks 2 250
}

@test "three ranks" {
    ranks 3 200
    ranks 3 200
}

@test "four ranks" {
    ranks 4 150
    ranks 4 150
}

@test "seven ranks" {
    ranks 7 80
    ranks 7 80
}

@test "without fusion, and with fusion buffers of one page" {
    ranks 2 120 --hvd-fusion=0
    ranks 3 120 --hvd-fusion=0
    ranks 3 120 --hvd-fusion=4K
    ranks 4 120 --hvd-fusion=4K
}

@test "with a cache of 3, so that names are forgotten all the time" {
    ranks 2 120 --hvd-cache=3
    ranks 4 120 --hvd-cache=3
}

@test "over tcp alone" {
    ranks 3 120 --hvd-backends=tcp
    ranks 7 60 --hvd-backends=tcp
}

@test "over tcp with several connections between neighbours" {
    ranks 2 200 --hvd-backends=tcp --hvd-tcp-streams=2
    ranks 5 120 --hvd-backends=tcp --hvd-tcp-streams=4
    ranks 4 60 --hvd-backends=tcp --hvd-tcp-streams=16 -- allgather
}

@test "over tcp between nodes of one rank, which are namespaces of processes" {
    node=(unshare --fork --pid --mount-proc --kill-child)
    "${node[@]}" true 2>/dev/null || skip 'no namespaces of processes can be made here: that needs root'
    ranks 2 120 --hvd-backends=tcp
    ranks 5 120 --hvd-backends=tcp --hvd-tcp-streams=2
    ranks 7 60 --hvd-backends=tcp
}

@test "over mpi, where it is asked for" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    ranks 2 120 --hvd-backends=mpi
    ranks 3 120 --hvd-backends=mpi,tcp
}

@test "each kind alone" {
    local kind
    for kind in allreduce broadcast allgather alltoall reducescatter; do
        ranks 4 60 -- "$kind"
    done
}

@test "over shared memory alone, and over tcp where it comes first" {
    ranks 2 200 --hvd-backends=shm
    ranks 6 200 --hvd-backends=shm
    ranks 2 200 --hvd-backends=tcp,shm
    ranks 4 200 --hvd-backends=tcp,shm
}

@test "in memory of hvd_alloc" {
    export PROPERTY_ALLOC=1 PROPERTY_LARGE=200000
    ranks 1 60
    ranks 2 120
    ranks 3 120 --hvd-fusion=0
    ranks 5 80
    ranks 4 60 -- allreduce
}

@test "while signals interrupt system calls all the time" {
    export PROPERTY_SIGNALS=1
    ranks 3 120 --hvd-backends=shm
    ranks 3 120 --hvd-backends=tcp
    PROPERTY_LARGE=1000000 ranks 2 12 --hvd-backends=tcp -- alltoall
    [ ! -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || ranks 2 120 --hvd-backends=mpi
}
