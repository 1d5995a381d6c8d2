#!/usr/bin/env bats
# waiting.bats: how ranks wait for each other, as --hvd-progress says. The cases are in waiting.c.

bats_require_minimum_version 1.5.0
load setup

late_ms=400
tries=10

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    waiting=$HVD_BUILD/tests/run/waiting
    need_hvdrun
}

# cost N CASE HOW: put into $output what rank 0 used: CPU time in milliseconds, plus its involuntary context switches
cost() {
    run timeout -k 5 100 "$hvdrun" --no-prefix -n "$1" --hvd-progress="$3" "$waiting" "$2"
    echo "$2 on $1, $3: $output"
    [ "$status" -eq 0 ]
    [[ $output =~ ^[0-9]+$ ]]
}

# A rank that sleeps uses next to nothing. How much a rank uses that spins depends on what else runs on its core.
sleeps_unless_it_spins() {
    local try
    cost "$1" "$2" block
    local block=$output
    [ "$block" -lt $((late_ms / 4)) ]
    cost "$1" "$2" adaptive
    [ "$output" -lt $((late_ms / 4)) ]
    for ((try = 0; try < tries; try++)); do
        cost "$1" "$2" spin
        [ "$output" -lt $((block + late_ms / 20)) ] || return 0
    done
    return 1
}

@test "who waits for a rank that is late sleeps, unless it is to spin" {
    sleeps_unless_it_spins 2 late
    sleeps_unless_it_spins 5 late
}

@test "the same while tensors travel" {
    sleeps_unless_it_spins 2 stopped
    sleeps_unless_it_spins 3 stopped
}

@test "the death of a rank wakes those who sleep while tensors travel" {
    local how
    for how in adaptive block; do
        run timeout -k 5 30 "$hvdrun" --no-prefix -n 3 --grace=20s --hvd-progress="$how" "$waiting" killed
        echo "$how: $output"
        [ "$status" -eq 137 ]
        has 'rank 0 was told'
        has 'rank 1 was told'
    done
}

@test "results are right however ranks wait" {
    local how
    for how in adaptive spin block; do
        run timeout -k 5 100 "$hvdrun" --no-prefix -n 3 --hvd-progress="$how" "$HVD_BUILD/tests/run/property" 21 60 3
        echo "$how: $output"
        [ "$status" -eq 0 ]
    done
}

@test "ranks that are bound to one core share it" {
    local how
    for how in adaptive spin block; do
        run timeout -k 5 100 taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" \
            "$hvdrun" --no-prefix -n 3 --hvd-progress="$how" "$HVD_BUILD/tests/run/property" 22 40 3
        echo "$how: $output"
        [ "$status" -eq 0 ]
    done
}

@test "another way to wait is refused" {
    run timeout -k 5 100 "$hvdrun" --no-prefix -n 2 --hvd-progress=often "$waiting" late
    [ "$status" -ne 0 ]
    has '--hvd-progress=often: the value is not a choice; expected one of adaptive, spin, block'
}
