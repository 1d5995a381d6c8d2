#!/usr/bin/env bats
# errors.bats: the errors of ranks that disagree, and of a rank that makes a mistake alone. The cases are in disagree.c
# and errors.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    [ -x "$hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
}

# ranks N PROGRAM CASE [OPTION...]
ranks() {
    local size=$1 program=$2 case=$3
    shift 3
    run timeout -k 5 60 "$hvdrun" --no-prefix -n "$size" "$@" "$HVD_BUILD/tests/run/$program" "$case"
    echo "$program $case on $size: $output"
    [ "$status" -eq 0 ]
}

@test "each disagreement is told to all ranks at once, with the tensor, two ranks and both values" {
    ranks 2 disagree mismatch
    ranks 4 disagree mismatch
}

@test "the same where names are forgotten all the time" {
    ranks 3 disagree mismatch --hvd-cache=3
}

@test "ranks of a set are named by their numbers in the job" {
    ranks 3 disagree set-mismatch
    ranks 7 disagree set-mismatch
}

@test "sets that differ in their members are not made, nor is another one removed" {
    ranks 2 disagree set-lists
    ranks 4 disagree set-lists
}

@test "what cannot do without a rank that has joined fails, and names it" {
    ranks 2 disagree joined
    ranks 4 disagree joined
}

@test "a rank that joins instead of coming ends the others' wait" {
    ranks 3 disagree joins-late
}

@test "a group fails whole where one of its members differs" {
    ranks 3 disagree group
}

@test "a group that is refused leaves nothing in flight" {
    ranks 1 errors group
    ranks 3 errors group
}

@test "a set that is removed ends what is pending in it" {
    ranks 3 errors set-removed
    ranks 7 errors set-removed
}

@test "wrong lists of ranks and numbers of sets are refused" {
    ranks 1 errors set-arguments
    ranks 3 errors set-arguments
}

@test "wrong arguments are refused with their values, and leave nothing in flight" {
    ranks 1 errors arguments
    ranks 3 errors arguments
}

@test "no memory for a result is an error of its rank" {
    ranks 3 errors allocate
}

@test "a rank that leaves ends what others wait for, in sets that it is not in too" {
    ranks 3 errors shutdown
    ranks 5 errors shutdown
}
