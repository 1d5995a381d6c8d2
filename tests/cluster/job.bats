#!/usr/bin/env bats
# job.bats: a whole job on a real cluster: `srun --hvd-fusion=64M ./train`, from the option to a trained model.
# shellcheck disable=SC2016
# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    start_slowly
    train=$HVD_BUILD/examples/train
    collectives=$HVD_BUILD/tests/run/collectives
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    export COLLECTIVES_DIR=$BATS_TEST_TMPDIR
    chmod 777 "$BATS_TEST_TMPDIR"
}

@test "srun -N3 -n6 --hvd-fusion=64M ./train learns" {
    run srun_in 60 -N3 -n6 --hvd-fusion=64M "$train"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ done\ loss=([0-9.]+)\ accuracy=(0\.[0-9]+)\ ranks=6 ]]
    awk -v accuracy="${BASH_REMATCH[2]}" 'BEGIN { exit !(accuracy >= 0.95) }'
}

@test "after hvd_shutdown, or a start that failed, the ranks start again, on three nodes" {
    run srun_in 60 -N3 -n6 --hvd-fusion=64M "$HVD_BUILD/tests/run/start" again
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "hvdbench measures hvd, and MPI beside it, on two nodes" {
    echo 'a float32 1000,10' >"$CLUSTER/model"
    run srun_in 60 -N2 -n4 --hvd-fusion=64M "$HVD_BUILD/bin/hvdbench" allreduce --model="$CLUSTER/model" --rounds=2 --json
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *'"ranks":4,"nodes":2,'*'"bytes":40000,"rounds":2,"hvd_us":'*'"memcpy_us":'* ]]
    [ ! -e "$HVD_BUILD/core/.libs/bench_mpi.so" ] || [[ $output == *'"mpi_best_us":'* ]]
}

@test "sbatch with #SBATCH --hvd-fusion, and salloc, learn the same" {
    local script=$CLUSTER/job.sh
    cat >"$script" <<EOF
#!/bin/sh
#SBATCH --hvd-fusion=32M
#SBATCH -N2 -n4 --output=$CLUSTER/job.out
srun "$HVD_BUILD/bin/hvdinfo"
srun "$train" --epochs=3
EOF
    sbatch_in 60 "$script"
    cat "$CLUSTER/job.out"
    [ "$(grep -cE '^ *fusion +32M +command line' "$CLUSTER/job.out")" -eq 4 ]
    grep -q '^done .* ranks=4' "$CLUSTER/job.out"
    run salloc_in 60 -N2 -n4 --hvd-fusion=16M srun "$train" --epochs=3
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ ranks=4 ]]
}

@test "64M is in force in all six tasks, and hvdinfo says that the command line set it" {
    run srun_in 30 -N3 -n6 --hvd-fusion=64M "$HVD_BUILD/bin/hvdinfo"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^ *fusion +64M +command line' <<<"$output")" -eq 6 ]
}

@test "a site's option is in force where the user said nothing, and says so" {
    plugstack fusion=8M
    run srun_in 30 -n1 --hvd-log=warn "$HVD_BUILD/bin/hvdinfo"
    echo "$output"
    grep -qE '^ *fusion +8M +site' <<<"$output"
}

@test "every collective across three nodes: cases $(printf '%s ' allreduce order broadcast barrier callback threads fork shutdown)" {
    local case
    for case in allreduce order broadcast barrier callback threads fork shutdown; do
        rm -f "$BATS_TEST_TMPDIR"/[0-9]*
        run srun_in 60 -N3 -n6 --hvd-fusion=64M "$collectives" "$case"
        echo "$case: $output"
        [ "$status" -eq 0 ]
    done
}

@test "the same over uneven nodes, and dealt out cyclically" {
    run srun_in 60 -N3 -n5 --hvd-fusion=64M "$collectives" order
    echo "$output"
    [ "$status" -eq 0 ]
    run srun_in 60 -N3 -n6 --distribution=cyclic --hvd-fusion=64M "$collectives" order
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "over mpi, where it is asked for" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    run srun_in 60 -N3 -n6 --hvd-backends=mpi "$collectives" order
    echo "$output"
    [ "$status" -eq 0 ]
}

# expect_firsts OUTPUT N TEXT: N members have logged TEXT
expect_firsts() {
    [ "$(grep -cE "process set $3\$" <<<"$1")" -eq "$2" ]
}

@test "sets inside a node share its memory, sets across nodes go over tcp, with shared memory where it helps" {
    run srun_in 60 -N2 -n4 --hvd-log=debug "$HVD_BUILD/tests/run/backends" sets
    echo "$output"
    [ "$status" -eq 0 ]
    expect_firsts "$output" 4 '[12]: first tensors over shm'
    expect_firsts "$output" 2 '3: first tensors over tcp'
    expect_firsts "$output" 4 '0: first tensors over hier-tcp'
    expect_firsts "$output" 10 '[0-3]: first tensors over .*'
    run srun_in 60 -N2 -n4 --hvd-backends=tcp,shm --hvd-log=debug "$HVD_BUILD/tests/run/backends" sets
    [ "$status" -eq 0 ]
    expect_firsts "$output" 10 '[0-3]: first tensors over tcp'
}

@test "shared memory alone cannot carry between nodes: the option is named" {
    run srun_in 60 -N2 -n4 --hvd-backends=shm "$collectives" order
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *'(shm: the ranks are on several nodes; '*'name another in --hvd-backends'* ]]
}

@test "a mismatch across nodes is told to every rank with both hosts" {
    run srun_in 60 -N3 -n6 --hvd-fusion=64M "$collectives" mismatch
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cF 'allreduce "w": rank 5 (n3) has float32[2,3], rank 0 (n1) has float32[2,4]' <<<"$output")" -eq 12 ]
}

@test "kill -9 of one rank ends the step within 5 s and says which" {
    local begin
    login_in 60 srun -N3 -n6 --hvd-fusion=64M sh -c '[ "$SLURM_PROCID" != 4 ] || echo $$ >"$1/victim"; exec "$2" --epochs=100000' \
        sh "$CLUSTER" "$train" >"$CLUSTER/kill.out" 2>&1 3>&- &
    local step=$!
    # wait until it trains, and the first epochs are over
    timeout 30 sh -c 'until grep -q "^epoch 3 " "$1/kill.out" 2>/dev/null && [ -s "$1/victim" ]; do sleep 0.05; done' sh "$CLUSTER"
    begin=$(date +%s%3N)
    node_in 10 n3 kill -KILL "$(cat "$CLUSTER/victim")"
    status=0
    wait "$step" || status=$?
    echo "ended after $(($(date +%s%3N) - begin)) ms with $status"
    cat "$CLUSTER/kill.out"
    [ $(($(date +%s%3N) - begin)) -le 5000 ]
    grep -q 'rank 4 (n3, pid [0-9]*) was lost' "$CLUSTER/kill.out"
}

@test "a rank that never calls hvd_init is named, on whatever node it is, and does not keep the step" {
    SECONDS=0
    run srun_in 60 -N3 -n6 --hvd-start-timeout=4s \
        sh -c '[ "$SLURM_PROCID" != 4 ] || exec sleep 50; exec "$1"' sh "$HVD_BUILD/examples/hello"
    echo "after $SECONDS s with $status: $output"
    [ "$status" -ne 0 ]
    [ "$SECONDS" -le $((20 * PATIENCE)) ]
    [[ $output == *'rank 4 is missing, and may never have called hvd_init'* ]]
    [[ $output != *'are missing'* ]] # the others have called it
    # not with -K: it may end the step before srun has read what a rank said
    run srun_in 60 -N3 -n3 --hvd-start-timeout=2s \
        sh -c '[ "$SLURM_PROCID" != 2 ] || exec sleep 50; exec "$1"' sh "$HVD_BUILD/examples/hello"
    echo "with one rank a node: $output"
    [ "$(grep -c 'rank 2 is missing, and may never have called hvd_init' <<<"$output")" -ge 1 ]
}

# asked JOB REGEX...: hvdinfo ps on the login node, which sees no process of other nodes here, says each of these in one
# answer: it asks the nodes one after another, so that an early answer may have two moments of the job's start
asked() {
    local job=$1 regex
    shift
    login_in 30 unshare --pid --fork --mount-proc "$HVD_BUILD/bin/hvdinfo" ps "$job" >"$CLUSTER/answer" 2>&1 || true
    for regex in "$@"; do
        grep -Eq "$regex" "$CLUSTER/answer" || return 1
    done
}

@test "hvdinfo ps on the login node names the rank that those of all nodes wait for" {
    local job status=0
    job=$(login_in 10 sbatch --parsable -N2 -n4 --output=/dev/null --wrap "srun --hvd $HVD_BUILD/tests/run/standing compute")
    # the asker's own steps have numbers too, perhaps the first ones
    await 30 asked "$job" "^job $job\.[0-9]+: 4 ranks on several nodes; rank 0 has submitted 2 operations" \
        '^  ranks 0-2 \(3\): in allreduce "second" .*, waits for rank 3 \(n2\)$' \
        ' rank 3 \(n2, .*: has not submitted allreduce "second"; last submitted allreduce "first".*; its program runs$' || status=1
    # each node is asked for itself by an srun of its own
    login_in 60 unshare --pid --fork --mount-proc "$HVD_BUILD/bin/hvdinfo" ps --fan-out=1 "$job" >"$CLUSTER/merged" 2>&1 || true
    login_in 60 unshare --pid --fork --mount-proc "$HVD_BUILD/bin/hvdinfo" stack "$job" 3 >"$CLUSTER/stack" 2>&1 || true
    login_in 10 scancel "$job"
    cat "$CLUSTER/answer"
    [ "$status" -eq 0 ]
    [ "$(wc -l <"$CLUSTER/answer")" -eq 3 ]
    cat "$CLUSTER/merged"
    [ "$(wc -l <"$CLUSTER/merged")" -eq 3 ]
    grep -q '^  ranks 0-2 (3): in allreduce "second" .*, waits for rank 3 (n2)$' "$CLUSTER/merged"
    grep -q '^  rank 3 (n2, pid [0-9].*: has not submitted allreduce "second"' "$CLUSTER/merged"
    cat "$CLUSTER/stack"
    grep -q '^  rank 3 (n2, .*: has not submitted allreduce "second"' "$CLUSTER/stack"
    if command -v eu-stack >/dev/null || command -v gdb >/dev/null; then
        grep -q ' main' "$CLUSTER/stack"
    else
        grep -q 'neither eu-stack nor gdb is installed on this node' "$CLUSTER/stack"
    fi
}

@test "what all ranks on all nodes are warned of is said once" {
    run srun_in 60 -N3 -n6 --hvd-fusion=64M --export=ALL,HVD_FUSOIN=1 "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'HVD_FUSOIN: hvd has no such option' <<<"$output")" -eq 1 ]
}

@test "without PMIx and the plug-in six tasks are not six jobs of one: the cause and the mend are named" {
    plugstack_none
    run srun_in 30 -N3 -n6 --mpi=none "$train"
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output =~ --mpi=pmix ]]
}

@test "a node that is cut off is lost within the lease" {
    local begin
    login_in 60 srun -N3 -n3 --hvd-lease=2s "$train" --epochs=100000 >"$CLUSTER/cut.out" 2>&1 3>&- &
    timeout 30 sh -c 'until grep -q "^epoch 3 " "$1/cut.out" 2>/dev/null; do sleep 0.05; done' sh "$CLUSTER"
    begin=$(date +%s)
    node_in 10 n3 ip link set eth0 down
    timeout 20 sh -c 'until grep -q "(n3.*was lost\|(n3.*cannot be reached\|rank 2 (n3" "$1/cut.out"; do sleep 0.05; done' sh "$CLUSTER" || {
        cat "$CLUSTER/cut.out"
        node_in 10 n3 ip link set eth0 up
        false
    }
    cat "$CLUSTER/cut.out"
    node_in 10 n3 ip link set eth0 up
    [ $(($(date +%s) - begin)) -le 10 ]
    wait %% || true
}

# property SEED COUNT SIZE OPTIONS: check random operations against a reference, as tests/run/property.bats does
property() {
    local seed=$1 count=$2 size=$3
    shift 3
    run srun_in 60 "$@" -n"$size" "$HVD_BUILD/tests/run/property" "$seed" "$count" "$size"
    echo "$* -n$size, seed $seed: $output"
    [ "$status" -eq 0 ]
}

@test "random operations of all kinds in all sets: two nodes, and seven ranks on three" {
    property 101 200 2 -N2 --hvd-fusion=64M
    property 102 200 4 -N2 --hvd-fusion=4K
    property 103 150 7 -N3 --overcommit --hvd-fusion=64M
    property 104 150 7 -N3 --overcommit --distribution=cyclic --hvd-cache=3
}

@test "each disagreement is told to all ranks on all nodes" {
    run srun_in 60 -N3 -n6 --hvd-fusion=64M "$HVD_BUILD/tests/run/disagree" mismatch
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "sets that overlap, across nodes and threads" {
    run srun_in 60 -N3 -n7 --overcommit --hvd-fusion=64M "$HVD_BUILD/tests/run/limits" crossing
    echo "$output"
    [ "$status" -eq 0 ]
}
