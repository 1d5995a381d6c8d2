#!/usr/bin/env bats
# ask.bats: hvdinfo ps on the login node asks four nodes, of which every second one asks the others.
# shellcheck disable=SC2016

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    CLUSTER_NODES='n1 n2 n3 n4' cluster_start
}

setup() {
    cluster_or_skip
    start_slowly
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    stopped=
    job=$(login_in 10 sbatch --parsable -N4 -n8 --output=/dev/null --wrap "srun --hvd $HVD_BUILD/tests/run/standing compute")
}

teardown() {
    local pid
    for pid in $stopped; do
        login_in 5 kill -CONT "$pid"
    done
    if [ -n "${job-}" ]; then # none where the test was skipped
        login_in 10 scancel "$job"
        await 30 login_in 10 sh -c '[ -z "$(squeue -h -j "$1" 2>/dev/null)" ]' sh "$job"
    fi
    slurm_complaints
}

# asks STATUS OPTION...: what the asker has written is in $output then; it sees no process of the nodes
asks() {
    local wanted=$1
    shift
    run login_in 60 unshare --pid --fork --mount-proc "$HVD_BUILD/bin/hvdinfo" ps "$@" "$job"
    echo "$* $status: $output"
    [ "$status" -eq "$wanted" ]
}

# stands_still OPTION...: the first seven ranks wait for the last one
stands_still() {
    asks 1 "$@" --still-after=1us &&
        grep -Eq "^job $job\.[0-9]+: 8 ranks on several nodes; " <<<"$output" &&
        grep -q '^  ranks 0-6 (7): in allreduce "second" .*, waits for rank 7 (n4)$' <<<"$output" &&
        grep -Eq '^  rank 7 \(n4, pid .*: has not submitted allreduce "second"' <<<"$output"
}

# stop NODE: from now on it answers no srun, as slurmd is stopped there
stop() {
    local pid
    pid=$(login_in 5 cat "$CLUSTER/pid-$1")
    stopped="$stopped $pid"
    login_in 5 kill -STOP "$pid"
}

each_by_itself() {
    asks 1 --fan-out=2 --all --still-after=1us &&
        [ "$(grep -Ec '^  rank [0-7] \(n[1-4], pid [0-9]+, ' <<<"$output")" -eq 8 ]
}

# says LINE...: an answer has these
says() {
    local line
    asks 1 --fan-out=2 || return 1
    for line in "$@"; do
        grep -Eq "$line" <<<"$output" || return 1
    done
}

@test "nodes that others ask name all ranks, in lines and by themselves" {
    await 30 stands_still --fan-out=2
    [ "${#lines[@]}" -eq 3 ]
    await 30 stands_still --fan-out=1
    [ "${#lines[@]}" -eq 3 ]
    await 30 each_by_itself
}

@test "a silent node that another asks is named, and the others answer" {
    await 30 stands_still --fan-out=2
    stop n2
    await 60 says '^hvdinfo: ps: 1 of 4 nodes did not answer: n2$' "^job $job\.[0-9]+: 8 ranks, 6 of them on several nodes" \
        '^  ranks 0,1,4-6 \(5\): in allreduce "second" .*, waits for rank 7 \(n4\)$'
}

@test "with a silent node that asks another neither is seen, and the others answer" {
    await 30 stands_still --fan-out=2
    stop n3
    await 60 says '^hvdinfo: ps: 2 of 4 nodes did not answer: n3$' "^job $job\.[0-9]+: 8 ranks, 4 of them on several nodes" \
        '^  ranks 0-3 \(4\): in allreduce "second" .*, waits for a rank that is not listed here$'
}
