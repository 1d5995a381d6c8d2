#!/usr/bin/env bats
# backend_mpi.bats: the backend mpi under Open MPI's own launcher.

setup() {
    [ -x "$HVD_BUILD/tests/run/backend_mpi" ] || skip "hvd was built without MPI"
    command -v mpirun >/dev/null || skip "mpirun is not installed (Debian: openmpi-bin)"
    export TMPDIR=$BATS_TEST_TMPDIR
    unset "${!SLURM_@}" "${!PMIX_@}" "${!OMPI_@}"
}

# ranks N PROGRAM [ARG...]
ranks() {
    local count=$1 program=$2
    shift 2
    run timeout -k 5 60 mpirun --allow-run-as-root --oversubscribe -np "$count" \
        "$HVD_BUILD/tests/run/$program" "$@" </dev/null
}

# each N TEXT: each of the N ranks has printed TEXT
each() {
    local count=$1 rank
    for ((rank = 0; rank < count; rank++)); do
        [[ $output == *"rank $rank: $2"* ]] || { echo "rank $rank did not say '$2': $output"; return 1; }
    done
}

@test "sums are right where the backend starts and ends MPI, loaded by its module" {
    for count in 2 4; do
        ranks $count backend_mpi hvd
        echo "$output"
        [ "$status" -eq 0 ]
        each $count "all sums are right"
    done
}

@test "sums are right where the backend starts MPI that the program is linked with" {
    ranks 3 backend_mpi_linked hvd
    echo "$output"
    [ "$status" -eq 0 ]
    each 3 "all sums are right"
}

@test "sums are right where the program has initialised MPI" {
    for level in 2 3; do
        ranks 2 backend_mpi_linked level $level
        echo "$output"
        [ "$status" -eq 0 ]
        each 2 "all sums are right"
    done
}

@test "a program that holds too low a thread level is told so" {
    ranks 2 backend_mpi_linked level 1
    [ "$status" -eq 0 ]
    each 2 "the program initialised MPI with MPI_THREAD_FUNNELED; ask for MPI_THREAD_SERIALIZED"
}

@test "a program that has finalised MPI is told so" {
    ranks 2 backend_mpi_linked finalized
    [ "$status" -eq 0 ]
    each 2 "the program has called MPI_Finalize"
}

@test "a job of one rank has no use for it" {
    ranks 1 backend_mpi hvd
    [ "$status" -eq 0 ]
    each 1 "the job has one rank"
}

@test "a world that is not the job is refused" {
    ranks 2 backend_mpi world
    [ "$status" -eq 0 ]
    for rank in 0 1; do
        [[ $output == *"rank $rank of 2 in MPI_COMM_WORLD, but rank $rank of 3 in the job; leave mpi out of backends"* ]]
    done
}

@test "outside PMIx MPI is neither initialised nor loaded" {
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 run "$HVD_BUILD/tests/run/backend_mpi" hvd
    [ "$status" -eq 0 ]
    [[ $output == "rank 0: the program has not initialised MPI, and there is no PMIx for MPI_Init; launch with PMIx" ]]
}

@test "a batch that the others never begin can be given up" {
    for mode in give-up give-up-alltoall; do
        ranks 2 backend_mpi $mode
        echo "$output"
        [ "$status" -ne 124 ]
        each 2 "closed in time"
    done
}
