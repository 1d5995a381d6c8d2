#!/usr/bin/env bats
# chaos.bats: the kept cases of tests/chaos, and those of some seeds.

setup() {
    load ../run/setup
    command -v python3 >/dev/null || skip 'it needs python3'
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    export CHAOS_PATIENCE=3 # the machine does other things as well
    chaos=$HVD_SOURCE/tests/chaos/run
    cd "$BATS_TEST_TMPDIR" || return 1
}

@test "each kind of fault, and what was found once" {
    timeout -k 5 300 "$chaos" --jobs 6 --cases "$HVD_SOURCE/tests/chaos/cases"
}

@test "faults that some seeds choose" {
    timeout -k 5 200 "$chaos" --jobs 6 --seeds 3000 48
}

@test "elastic jobs whose ranks are killed, as some seeds choose" {
    timeout -k 5 200 "$HVD_SOURCE/tests/chaos/elastic" --seeds 1 25
}

@test "elastic jobs whose agents are killed and stopped, as some seeds choose" {
    timeout -k 5 200 "$HVD_SOURCE/tests/chaos/elastic" --agents --seeds 1 4
}

@test "elastic jobs whose nodes are stopped as a whole, as some seeds choose" {
    timeout -k 5 300 "$HVD_SOURCE/tests/chaos/elastic" --freeze --agents --seeds 2 4
}

@test "strangers at every socket of a running job" {
    timeout -k 5 300 "$HVD_SOURCE/tests/chaos/abuse" 2
}

@test "memory, descriptors and threads do not grow" {
    timeout -k 5 200 "$HVD_SOURCE/tests/chaos/soak" 15
}

@test "names that never repeat do not grow memory" {
    CHAOS_FRESH=1 timeout -k 5 200 "$HVD_SOURCE/tests/chaos/soak" 10
}
