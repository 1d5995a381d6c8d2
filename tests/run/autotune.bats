#!/usr/bin/env bats
# --hvd-autotune as a user sees it: the search ends, logs its result, and writes a file that a later job reads. Which
# settings are faster on this machine is not tested.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
    found=$BATS_TEST_TMPDIR/found.yaml
}

# steps COUNT [OPTION...]: a job of three ranks that makes COUNT steps with the same small tensors; its sums are right
steps() {
    local count=$1
    shift
    run timeout -k 5 100 "$hvdrun" --no-prefix -n 3 "$@" "$HVD_BUILD/bin/hvdbench" small --no-mpi \
        --tensors=5 --bytes=64 --warmup=0 --rounds="$count"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test 'it comes to an end within 300 steps and says so once' {
    steps 310 --hvd-autotune=on
    [ "$(grep -c 'autotune: ' <<<"$output")" -eq 1 ]
    [[ $output == *'rank 0 '*' steps'* ]]
}

@test 'a later job reads what it wrote' {
    steps 310 --hvd-autotune=on --hvd-autotune-file="$found"
    cat "$found"
    grep -qx 'fusion: [0-9]*[KMG]\?' "$found"
    grep -qx 'chunk: [0-9]*K\?' "$found"
    grep -qx 'inflight: [0-9]*' "$found"
    steps 2 --hvd-config="$found"
}

@test 'a file that cannot be written is named, and the job goes on' {
    steps 310 --hvd-autotune=on --hvd-autotune-file="$BATS_TEST_TMPDIR/none/found.yaml"
    [[ $output == *"cannot be written to $BATS_TEST_TMPDIR/none/found.yaml: No such file"* ]]
}

@test 'it says nothing where it was not asked for, or has not come to an end' {
    steps 310
    [[ $output != *autotune* ]]
    steps 20 --hvd-autotune=on --hvd-autotune-file="$found"
    [[ $output != *'autotune: '* ]]
    [ ! -e "$found" ]
}
