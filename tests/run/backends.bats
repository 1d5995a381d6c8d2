#!/usr/bin/env bats
# backends.bats: which backend carries which operations on one node. The cases are in backends.c; for several nodes see
# tests/cluster/job.bats.

bats_require_minimum_version 1.5.0
load setup

setup() {
    need_hvdrun
}

# backends N CASE [OPTION...]
backends() {
    good_case "$1" backends "${@:2}"
}

# firsts N BACKEND: N members have logged that this backend carries their set's first tensors
firsts() {
    [ "$(grep -c "process set [0-3]: first tensors over $2\$" <<<"$output")" -eq "$1" ]
}

@test "on one node all goes through shared memory" {
    backends 4 sets --hvd-log=debug
    firsts 10 shm
    firsts 0 tcp
}

@test "the first in the list that can carry it does, shm alone too" {
    backends 4 sets --hvd-log=debug --hvd-backends=tcp,shm
    firsts 10 tcp
    firsts 0 shm
    backends 4 sets --hvd-log=debug --hvd-backends=shm,tcp
    firsts 10 shm
    backends 4 sets --hvd-backends=shm
    [ -z "$output" ]
}

@test "sets for which there is no room go over tcp" {
    backends 7 rooms
    has 'shm carries nothing in process set'
    has 'no shared memory is left on this node'
    has 'remove sets that are no longer used'
}

@test "without tcp they are an error, and the others go on" {
    backends 7 no-rooms --hvd-backends=shm
}
