#!/usr/bin/env bats
# chaos.bats: faults of a step's processes while tests/chaos/worker runs in it, whose every result is checked.
# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    slurm_has_pmix || skip "this Slurm has no PMIx"
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs CHAOS_LARGE=1000
    progress=$CLUSTER/progress.$BATS_TEST_NUMBER
    out=$BATS_TEST_TMPDIR/out
    head -c 256 /dev/zero >"$progress" # worker.c: struct progress of four ranks
    chmod 666 "$progress"
}

# number RANK INDEX: a field of a rank's progress: 0 is its pid, 1 the phase, 3 how many operations it has submitted
number() {
    echo $(($(od -An -td4 -j $(($1 * 64 + $2 * 4)) -N4 "$progress")))
}

# Start four ranks on two nodes, and wait until rank 0 has submitted so many operations.
start() {
    local end=$((SECONDS + 60))
    # no job but this one writes here
    srun_in 120 -N2 -n4 --hvd-stall-abort=60s "$HVD_BUILD/tests/chaos/worker" 5 "$1" 4 "$progress" >"$out" 2>&1 &
    step=$!
    until [ "$(number 0 3)" -ge "$2" ]; do
        [ $SECONDS -lt $end ] || { cat "$out"; return 1; }
        sleep 0.02
    done
}

# The processes of the step that are left on the nodes.
left() {
    node_in 10 n1 pgrep -f 'chaos/(.libs/)?(lt-)?worker 5 ' || true
}

await_none_left() {
    local end=$((SECONDS + 15))
    while [ -n "$(left)" ]; do
        [ $SECONDS -lt $end ] || { echo "left: $(left)"; return 1; }
        sleep 0.1
    done
}

@test "a rank that is killed is named by the others, and the step ends" {
    local status=0 rank
    start 100000 100
    login_in 10 kill -KILL "$(number 2 0)"
    wait "$step" || status=$?
    cat "$out"
    [ "$status" -ne 0 ]
    await_none_left
    for rank in 0 1 3; do
        # a rank that was ended before it could say so is no fault
        ! grep "worker: rank $rank: told" "$out" | grep -v 'told -8: .*rank 2 ('
    done
    grep -q 'rank 2 (.*) was lost' "$out"
    expect_no_text "$(cat "$out")" 'property:'
}

@test "a rank that stands still for a second is waited for" {
    start 600 20
    login_in 10 kill -STOP "$(number 3 0)"
    [ "$(number 3 1)" -lt 5 ] # it had not come to the end
    sleep 1 # the fault itself
    login_in 10 kill -CONT "$(number 3 0)"
    wait "$step" || { cat "$out"; return 1; }
    [ ! -s "$out" ] || expect_no_text "$(cat "$out")" 'told'
    await_none_left
}

@test "ranks finish their work although their node's slurmstepd was killed" {
    local rank end=$((SECONDS + 60)) stepd
    start 600 20
    # shellcheck disable=SC2016 # for awk
    stepd=$(login_in 10 awk '/^PPid:/ { print $2 }' "/proc/$(number 0 0)/status")
    [[ $(login_in 10 cat "/proc/$stepd/comm") == slurmstepd* ]]
    login_in 10 kill -KILL "$stepd"
    [ "$(number 0 1)" -lt 5 ] # the ranks had not come to the end
    for rank in 0 1 2 3; do
        until [ "$(number $rank 1)" -eq 6 ]; do
            [ $SECONDS -lt $end ] || { cat "$out"; return 1; }
            sleep 0.05
        done
    done
    # srun waits for the slurmstepd, as it does for any program
    login_in 20 scancel --user=root
    wait "$step" || true
    cat "$out"
    expect_no_text "$(cat "$out")" 'told'
    await_none_left
}
