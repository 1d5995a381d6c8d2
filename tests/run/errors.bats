#!/usr/bin/env bats
# errors.bats: the errors of ranks that disagree, and of a rank that makes a mistake alone. The cases are in disagree.c
# and errors.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    need_hvdrun
}

@test "each disagreement is told to all ranks at once, with the tensor, two ranks and both values" {
    good_case 2 disagree mismatch
    good_case 4 disagree mismatch
}

@test "the same where names are forgotten all the time" {
    good_case 3 disagree mismatch --hvd-cache=3
}

@test "ranks of a set are named by their numbers in the job" {
    good_case 3 disagree set-mismatch
    good_case 7 disagree set-mismatch
}

@test "sets that differ in their members are not made, nor is another one removed" {
    good_case 2 disagree set-lists
    good_case 4 disagree set-lists
}

@test "what cannot do without a rank that has joined fails, and names it" {
    good_case 2 disagree joined
    good_case 4 disagree joined
}

@test "a rank that joins instead of coming ends the others' wait" {
    good_case 3 disagree joins-late
}

@test "a group fails whole where one of its members differs" {
    good_case 3 disagree group
}

@test "a group that is refused leaves nothing in flight" {
    good_case 1 errors group
    good_case 3 errors group
}

@test "a set that is removed ends what is pending in it" {
    good_case 3 errors set-removed
    good_case 7 errors set-removed
}

@test "wrong lists of ranks and numbers of sets are refused" {
    good_case 1 errors set-arguments
    good_case 3 errors set-arguments
}

@test "wrong arguments are refused with their values, and leave nothing in flight" {
    good_case 1 errors arguments
    good_case 3 errors arguments
}

@test "no memory for a result is an error of its rank" {
    good_case 3 errors allocate
}

@test "a rank that leaves ends what others wait for, in sets that it is not in too" {
    good_case 3 errors shutdown
    good_case 5 errors shutdown
}
