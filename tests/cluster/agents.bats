#!/usr/bin/env bats
# agents.bats: elastic jobs of hvdrun on several nodes, whose ranks agents start: ranks, an agent and a node are lost, hosts
# come, and the job goes on. The programs check each step: tests/run/elastic.c and examples/train.c.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # sh expands; run sets output and status in the test that reads them, begin_in sets out

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun was not built: see PMIx in the summary of configure'
    start_slowly
    hvdrun=$HVD_BUILD/bin/hvdrun
    elastic=$HVD_BUILD/tests/run/elastic
    train=$HVD_BUILD/examples/train
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
}

# job STATUS NODES ARGS of hvdrun: run a job, which must exit with STATUS
job() {
    local expected=$1 nodes=$2
    shift 2
    run salloc_in 60 -N"$nodes" --exclusive "$hvdrun" --launcher=agents "$@"
    echo "$output"
    [ "$status" -eq "$expected" ]
}

@test "agents start ranks on all nodes, and bring what they write and how they end" {
    job 0 3 -n 5 --min-np=2 sh -c 'echo "here is $RANK of $WORLD_SIZE, $LOCAL_RANK"; echo error >&2; exec "$1"' sh "$elastic"
    grep -q '^\[4\] here is 4 of 5' <<<"$output"
    [ "$(grep -c '^\[[0-4]\] error$' <<<"$output")" -eq 5 ]
    grep -q 'rank 0 of 5, .* after 0 losses' <<<"$output"
    job 0 3 -n 3 --min-np=3 --timestamps --only-rank=0,2 --output-dir="$CLUSTER/tmp/user/out" sh -c 'echo "here is $RANK"'
    [ "$(grep -cE '^[0-9:.]+ \[[02]\] here is [02]$' <<<"$output")" -eq 2 ]
    expect_no_text "$output" 'here is 1'
    expect_line "$(cat "$CLUSTER/tmp/user/out/rank.1.out")" 'here is 1'
}

@test "a job goes on without a rank that is killed, whichever it is" {
    local rank
    for rank in 4 0; do
        job 0 3 -n 5 --min-np=3 --no-prefix "$elastic" $rank@10
        grep -q '^rank 0 of 4, .* after 1 losses' <<<"$output"
        expect_text "$output" "hvdrun: rank $rank killed by SIGKILL; 4 of 5 ranks go on"
    done
}

# start_on NODES ARGS of hvdrun: begin training in a job on these nodes
start_on() {
    local nodes=$1
    shift
    begin_in 100 salloc -Q -w "$nodes" --exclusive --no-kill "$hvdrun" --launcher=agents --no-prefix --hvd-lease=2s "$@"
}

start() {
    start_on n1,n2,n3 "$@"
}

# stop: end the job, which goes on otherwise, by a signal to its hvdrun, and not to the agents
stop() {
    login_in 10 pkill -TERM -f '^[^ ]*hvdrun --launcher'
    ends 143
}

# joined RANK NODE: the events of the job say so
joined() {
    await 15 grep -q "\"event\":\"rank_joined\".*\"rank\":$1,\"node\":\"$2\"" "$events" || {
        cat "$events" "$out"
        false
    }
}

# Kill the agent on a node: the oldest hvdrun of its network namespace; the younger one is its reaper.
kill_agent() {
    node_in 10 "$1" bash -c 'for process in /proc/[0-9]*; do
        [ "$(readlink "$process/ns/net")" = "$(readlink /proc/self/ns/net)" ] || continue
        grep -qz "^--join=:" "$process/cmdline" 2>/dev/null && echo "${process#/proc/}"
    done | sort -n | head -n 1 | xargs kill -KILL'
}

@test "ranks of an agent that is killed are replaced where there is room" {
    local events=$CLUSTER/tmp/user/kill.events
    start -n 4 --min-np=2 --events="$events" "$train" --epochs=1000000
    shows 'epoch 3 '
    kill_agent n1
    shows 'hvdrun: the agent of n1 is lost: .*; the job goes on without this host'
    shows 'hvdrun: the hosts have 4 slots; 2 more ranks start'
    joined 0 n3
    goes_on
    stop
    expect_line "$output" 'hvdrun: rank 0 was lost with its host; 3 of 4 ranks go on'
}

@test "a node that a command of the site refuses gets no rank, and the job begins without it" {
    local events=$CLUSTER/tmp/user/health.events
    job 0 3 --health-check=$'test "$SLURMD_NODENAME" != n2 || {\n echo "no GPU"; exit 3; }' --min-np=2 --events="$events" --no-prefix \
        sh -c 'echo "here is $SLURMD_NODENAME"; exec "$1"' sh "$elastic"
    expect_text "$output" 'hvdrun: n2 is left out: --health-check: '
    expect_text "$output" 'exited with status 3: no GPU'
    [ "$(grep '^here is' <<<"$output" | sort -u | xargs)" = 'here is n1 here is n3' ]
    grep -q 'rank 0 of 4, .* after 0 losses' <<<"$output"
    grep -q '"event":"host_left_out".*"node":"n2".*"reason":"--health-check: ' "$events"
    job 75 1 --health-check=false -n 1 --min-np=1 "$elastic"
    expect_text "$output" 'hvdrun: the job begins with 1 ranks, but the hosts whose agent has come have 0 slots'
}

@test "a job grows when a script says that a node has slots" {
    local events=$CLUSTER/tmp/user/grow.events
    printf '#!/bin/sh\ncat %s/hosts\n' "$CLUSTER" >"$CLUSTER/slots"
    chmod 755 "$CLUSTER/slots"
    echo n1:2 >"$CLUSTER/hosts.now"
    mv "$CLUSTER/hosts.now" "$CLUSTER/hosts"
    start -n 2 --min-np=2 --max-np=6 --events="$events" --host-discovery="$CLUSTER/slots" "$train" --epochs=1000000
    shows 'epoch 3 '
    printf 'n1:2\nn3:1\n' >"$CLUSTER/hosts.new"
    mv "$CLUSTER/hosts.new" "$CLUSTER/hosts"
    shows 'hvdrun: the hosts have 3 slots; 1 more rank starts'
    joined 2 n3
    goes_on
    stop
}

@test "a host outside the Slurm job joins with the key of the job, and no other" {
    local port guest ended=0 key=0123456789abcdef0123456789abcdef events=$CLUSTER/tmp/user/guest.events
    export HVD_JOB_KEY=$key
    start_on n1,n2 -n 4 --min-np=2 --max-np=5 --events="$events" "$train" --epochs=1000000
    shows 'hvdrun: other hosts join by hvdrun --join=login:'
    shows 'epoch 3 '
    port=$(sed -n 's/^hvdrun: other hosts join by hvdrun --join=login:\([0-9]*\) .*/\1/p' "$out")
    HVD_JOB_KEY=${key/0/1} run node_in 20 n3 "$hvdrun" --join=login:"$port" "$train"
    echo "$output"
    [ "$status" -eq 1 ]
    expect_text "$output" 'HVD_JOB_KEY must be that of the job'
    node_in 60 n3 "$hvdrun" --join=login:"$port" --hvd-lease=2s "$train" --epochs=1000000 >"$CLUSTER/guest.out" 2>&1 3>&- &
    guest=$!
    shows 'hvdrun: n3 joins with 1 slot'
    joined 4 n3
    run node_in 20 n3 "$hvdrun" --join=login:"$port" "$train"
    expect_text "$output" 'the job has an agent on n3 already'
    goes_on
    stop
    wait "$guest" || ended=$?
    cat "$CLUSTER/guest.out"
    [ "$ended" -eq 0 ] && [ ! -s "$CLUSTER/guest.out" ]
}

@test "--nnodes and --nproc-per-node mean what they mean to torchrun; events, metrics and variables name the nodes" {
    local events=$CLUSTER/tmp/user/agents.events metrics=$CLUSTER/tmp/user/agents.metrics
    job 0 3 --nnodes=2:3 --nproc-per-node=2 --run-id=r7 --events="$events" --metrics="$metrics" --no-prefix sh -c \
        'echo "$RANK of $WORLD_SIZE: $LOCAL_RANK of $LOCAL_WORLD_SIZE, $GROUP_RANK of $GROUP_WORLD_SIZE, $TORCHELASTIC_RUN_ID"
        exec "$1" 5@10' sh "$elastic"
    expect_line "$output" '0 of 6: 0 of 2, 0 of 3, r7'
    expect_line "$output" '5 of 6: 1 of 2, 2 of 3, r7'
    expect_text "$output" 'hvdrun: rank 5 killed by SIGKILL; 5 of 6 ranks go on'
    cat "$events"
    grep -q '"event":"job_started".*"ranks":6,"slots":6,"node":"login"' "$events"
    grep -q '"event":"rank_started".*"rank":1,"node":"n1"' "$events"
    grep -q '"event":"rank_lost".*"rank":5,"node":"n3".*"status":137,"reason":"killed by SIGKILL"' "$events"
    [ "$(grep -c '"event":"epoch_formed"' "$events")" -eq 2 ]
    [ "$(grep -c '"event":"rank_exited"' "$events")" -eq 5 ]
    expect_no_text "$(<"$events")" '"event":"rank_joined"'
    expect_no_text "$(<"$events")" '"event":"slots_changed"'
    grep -q '^hvdrun_rank_starts_total{run_id="r7"} 6$' "$metrics"
    grep -q '^hvdrun_slots{run_id="r7"} 6$' "$metrics"
    job 75 1 --nnodes=2 --nproc-per-node=2 "$elastic"
    expect_text "$output" 'hvdrun: the job begins with 4 ranks, but the hosts whose agent has come have 2 slots'
}

@test "a job that scontrol shrinks goes on without the agents of the nodes that it has lost" {
    start -n 6 --min-np=3 "$train" --epochs=1000000
    shows 'epoch 3 '
    login_in 10 scontrol update "JobId=$(login_in 10 squeue -h -o %A)" NumNodes=2
    shows 'hvdrun: the agent of n3 is lost: '
    shows 'hvdrun: rank [45] was lost with its host; 4 of [56] ranks go on'
    goes_on
    stop
}

@test "a node that is drained keeps its agent, and that of one that is set down is lost" {
    start -n 6 --min-np=3 "$train" --epochs=1000000
    shows 'epoch 3 '
    login_in 10 scontrol update NodeName=n3 State=DRAIN Reason=test
    goes_on
    expect_no_text "$(<"$out")" hvdrun
    login_in 10 scontrol update NodeName=n3 State=DOWN Reason=test
    shows 'hvdrun: the agent of n3 is lost: '
    shows 'hvdrun: rank [45] was lost with its host; 4 of [56] ranks go on'
    goes_on
    stop
    node_returns n3
}

# The last one: Slurm needs a while to clean up on that node.
@test "a node that vanishes is lost within the lease, and the job ends with those that are left" {
    start -n 6 --min-np=3 "$train" --epochs=40
    shows 'epoch 3 '
    node_in 10 n3 ip link set eth0 down
    shows 'hvdrun: the agent of n3 is lost: '
    ends 0
    node_in 10 n3 ip link set eth0 up
    expect_line "$output" 'hvdrun: rank 5 was lost with its host; 4 of 5 ranks go on'
    expect_text "$output" 'epoch 40 '
}
