#!/usr/bin/env bats
# planes.bats: which planes carry what on one node. See planes.c; on several nodes see tests/cluster/job.bats.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    [ -x "$hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
}

# planes N CASE [OPTION...]
planes() {
    local size=$1 case=$2
    shift 2
    run timeout -k 5 100 "$hvdrun" --no-prefix -n "$size" "$@" "$HVD_BUILD/tests/run/planes" "$case"
    echo "$output"
    [ "$status" -eq 0 ]
}

# firsts N PLANE: this many members have said that their set's first tensors went there
firsts() {
    [ "$(grep -c "process set [0-3]: first tensors over $2\$" <<<"$output")" -eq "$1" ]
}

@test "on one node all goes through shared memory" {
    planes 4 sets --hvd-log=debug
    firsts 10 shm
    firsts 0 tcp
}

@test "the first in the list that can carry it does, shm alone too" {
    planes 4 sets --hvd-log=debug --hvd-planes=tcp,shm
    firsts 10 tcp
    firsts 0 shm
    planes 4 sets --hvd-log=debug --hvd-planes=shm,tcp
    firsts 10 shm
    planes 4 sets --hvd-planes=shm
    [ -z "$output" ]
}

@test "sets for which there is no room go over tcp" {
    planes 7 rooms
    has 'shm carries nothing in process set'
    has 'no shared memory is left on this node'
    has 'remove sets that are no longer used'
}

@test "without tcp they are an error, and the others go on" {
    planes 7 no-rooms --hvd-planes=shm
}
