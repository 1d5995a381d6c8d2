#!/usr/bin/env bats
# random_programs.bats: some random programs against the Python faces; a failure prints how to repeat it. The long run is
# by hand, see CONTRIBUTING.md.

bats_require_minimum_version 1.5.0
load setup
load python

setup() {
    need_hvdrun
    need_python torch
    export PYTHON
    random=$HVD_SOURCE/tests/python/random_programs/run
}

# programs COUNT RANKS BACKEND SEED: so many programs in one job
programs() {
    run timeout -k 5 200 "$random" --programs "$1" --in-job "$1" --ranks "$2" --backends "$3" "$4"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "random programs over shared memory" {
    programs 12 2 shm 1
}

@test "random programs over tcp" {
    programs 10 3 tcp 2000
}

@test "random programs over mpi" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    programs 6 2 mpi 4000
}
