#!/usr/bin/env bats
# hier.bats: several ranks on each of several Slurm nodes: shared memory inside the nodes, tcp or mpi between them.
# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    start_slowly
    tests=$HVD_BUILD/tests/run
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
}

# job ARGS of srun: run a step, which must exit with 0
job() {
    run srun_in 60 "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# firsts N SET BACKEND: N members of the set have logged that this backend carries its first tensors
firsts() {
    [ "$(grep -c "process set $2: first tensors over $3\$" <<<"$output")" -eq "$1" ]
}

@test "srun -N2 -n4 goes by hier-tcp, sums are right, and sets go where they can" {
    job -N2 -n4 --hvd-log=debug "$tests/backends" sets
    firsts 4 0 hier-tcp
    firsts 2 1 shm
    firsts 2 2 shm
    firsts 2 3 tcp
    job -N2 -n4 --hvd-backends=tcp,shm --hvd-log=debug "$tests/backends" sets
    firsts 4 0 tcp
}

@test "an alltoall takes one connection to each other node, and to all ranks where nodes have not as many each" {
    job -N2 -n4 --hvd-backends=shm,hier-tcp,tcp "$tests/backends" alltoall
    [ "$(grep -c 'has 1 more connections$' <<<"$output")" -eq 4 ]
    job -N2 -n3 --hvd-backends=shm,hier-tcp,tcp "$tests/backends" alltoall
    [ "$(grep -c 'has 2 more connections$' <<<"$output")" -eq 3 ]
}

@test "random operations of all kinds are right on even and uneven nodes, and dealt out cyclically" {
    job -N2 -n4 --hvd-fusion=64M "$tests/property" 211 150 4
    job -N3 -n5 --hvd-fusion=8K "$tests/property" 212 150 5
    job -N3 -n7 --overcommit --hvd-fusion=64M "$tests/property" 213 100 7
    job -N3 -n6 --distribution=cyclic --hvd-fusion=64M "$tests/property" 214 100 6
}

@test "over mpi" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    slurm_has_pmix || skip 'this Slurm has no PMIx'
    job -N2 -n4 --hvd-backends=shm,hier-mpi,mpi --hvd-log=debug "$tests/backends" sets
    firsts 4 0 hier-mpi
    firsts 2 3 mpi
    job -N2 -n4 --hvd-backends=hier-mpi,mpi "$tests/property" 215 100 4
}
