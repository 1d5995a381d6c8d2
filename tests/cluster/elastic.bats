#!/usr/bin/env bats
# elastic.bats: elastic steps, which --hvd-min makes: ranks and a node are lost, on several nodes, and the step goes on.
# The programs check each step: tests/run/elastic.c, elastic_state.c and examples/train.c.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # sh expands; run sets output and status in the test that reads them, begin_in sets out

bats_require_minimum_version 1.5.0
load helpers
load ../run/python

setup() {
    cluster_or_skip
    start_slowly
    plugstack "epochs=$HVD_BUILD/bin/hvdepochs"
    elastic=$HVD_BUILD/tests/run/elastic
    state=$HVD_BUILD/tests/run/elastic_state
    train=$HVD_BUILD/examples/train
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
}

# step STATUS ARGS of srun: run a step, which must exit with STATUS
step() {
    local expected=$1
    shift
    run srun_in 60 "$@"
    echo "$output"
    [ "$status" -eq "$expected" ]
}

@test "a step goes on without a rank that is killed, whichever it is, and exits with 0" {
    local rank
    for rank in 5 0; do
        step 0 -N3 -n6 --hvd-min=4 "$elastic" $rank@10
        grep -q '^rank 0 of 5, .* after 1 losses' <<<"$output"
        expect_line "$output" "hvd: 5 of 6 ranks go on as epoch 2, without rank $rank"
        expect_no_text "$output" 'failed first'
    done
}

@test "the doctor proves that an elastic step survives, and names what would end it" {
    local doctor=$HVD_BUILD/bin/hvdinfo
    run srun_in 60 -N3 -n3 --hvd-min=2 --hvd-lease=4s "$doctor" doctor
    echo "$output"
    expect_line "$output" 'ok   elastic: MPI type none, and neither a bad exit nor a lost node ends the step; a rank is lost when its process ends, and when its node is silent for 4s (--hvd-lease)'
    SLURM_KILL_BAD_EXIT=1 run srun_in 60 -N3 -n3 --hvd-min=2 "$doctor" doctor
    echo "$output"
    expect_text "$output" 'fail elastic: with SLURM_KILL_BAD_EXIT a task that fails ends the step, although it is elastic: unset it, or set it to 0'
    run srun_in 60 --mpi=pmi2 -N3 -n3 --hvd-min=2 "$doctor" doctor
    echo "$output"
    expect_text "$output" 'fail elastic: with this MPI type a task that dies takes the step with it, although it is elastic: srun --mpi=none'
}

@test "ranks of several nodes are lost one after the other, and two at once" {
    step 0 -N3 -n6 --hvd-min=2 "$elastic" 0@10 3@20 1@30 4@30
    grep -q '^rank 0 of 2, once rank 2, after [234] losses' <<<"$output"
    grep -q '^hvd: 2 of 6 ranks go on as epoch [45], without ranks 0, 1, 3, 4$' <<<"$output"
}

@test "a rank that stops on its way to the others of the next epoch is lost, if enough others are left" {
    step 0 -N3 -n4 --hvd-min=2 --hvd-start-timeout=3s "$elastic" 3@10 1@stop
    grep -q '^rank 0 of 2, once rank 0, after 1 losses' <<<"$output"
    grep -q '^hvd: 2 of 4 ranks go on as epoch [0-9]*, without ranks 1, 3$' <<<"$output"
}

@test "a rank that stays away from the next epoch is lost, and the step ends if too few are left" {
    step 137 -N3 -n4 --hvd-min=3 --hvd-start-timeout=3s --hvd-lease=2s "$elastic" 3@10 1@late
    expect_text "$output" 'rank 1 has not joined epoch 3 within --hvd-start-timeout; the others are too few to go on without it'
    expect_text "$output" '2 of 4 ranks are left, too few to go on'
    grep -q '^hvd: rank 3 (n3, pid [0-9]*) failed first: killed by SIGKILL' <<<"$output"
}

@test "spares take the places of ranks that are lost, and those that are not needed end with the step" {
    step 0 -N3 -n6 --hvd-min=3 --hvd-spares=2 "$elastic" 0@10 2@20
    grep -q '^rank 0 of 4, once rank 1, after 2 losses' <<<"$output"
    expect_line "$output" 'hvd: 4 of 6 ranks go on as epoch 2, without rank 0; spares left: 1'
    expect_line "$output" 'hvd: 4 of 6 ranks go on as epoch 3, without ranks 0, 2; spares left: 0'
    step 0 -N3 -n6 --hvd-min=3 --hvd-spares=2 "$elastic" # the spares end quietly
    grep -q '^rank 0 of 4, .* after 0 losses' <<<"$output"
    expect_no_text "$output" hvd
    expect_no_text "$output" srun
}

@test "a spare waits longer than a start may take, outlives another spare, and gets the state" {
    export ELASTIC_STEP_US=350000
    step 0 -N3 -n4 --hvd-min=2 --hvd-spares=2 --hvd-start-timeout=10s \
        sh -c '[ $SLURM_PROCID != 2 ] || { "$1" 5 & sleep 3; kill -KILL $!; exit 9; }; exec "$1" 5 0@30:kill' sh "$state"
    expect_line "$output" 'rank 0 of 2, once rank 1: all steps are right'
    expect_line "$output" 'hvd: 2 of 4 ranks go on as epoch 2, without ranks 0, 2; spares left: 0'
}

@test "spares are for elastic steps, and leave enough ranks that work" {
    step 1 -n3 --hvd-spares=1 "$elastic"
    expect_text "$output" '--hvd-spares=1: only an elastic step has spares; give --hvd-min too'
    step 1 -n3 --hvd-min=2 --hvd-spares=2 "$elastic"
    expect_text "$output" '--hvd-spares=2: the step has 3 tasks, of which --hvd-min=2 must work; expected at most 1'
}

@test "a step that loses nothing says nothing, and is one like any other" {
    step 0 -N3 -n6 --hvd-min=4 "$elastic"
    grep -q '^rank 0 of 6, .* after 0 losses' <<<"$output"
    expect_no_text "$output" 'go on'
    step 3 -N2 -n2 --hvd-min=1 sh -c '"$1" && exit 3' sh "$elastic"
}

@test "a rank that fails before it joins is not waited for" {
    step 0 -N3 -n6 --hvd-min=4 sh -c '[ $SLURM_PROCID != 3 ] || exit 5; exec "$1"' sh "$elastic"
    grep -q '^rank 0 of 5, .* after 0 losses' <<<"$output"
    expect_line "$output" 'hvd: 5 of 6 ranks go on as epoch 1, without rank 3'
    step 5 -N3 -n3 --hvd-min=2 sh -c '[ $SLURM_PROCID = 0 ] || exit 5; exec "$1"' sh "$elastic"
    expect_text "$output" '1 of 3 ranks are left, too few to go on'
}

@test "a rank that does not join within the start timeout is lost, if enough others have" {
    local script='[ $SLURM_PROCID != 1 ] || exec sleep 60; exec "$0"'
    step 0 -N3 -n3 --hvd-min=2 --hvd-start-timeout=2s sh -c "$script" "$HVD_BUILD/examples/hello"
    expect_text "$output" 'rank 1 has not joined epoch 1 within --hvd-start-timeout; the others go on without it'
    expect_line "$output" 'hvd: 2 of 3 ranks go on as epoch 1, without rank 1'
    expect_line "$output" 'rank 1 of 2: the sum is 3'
    run srun_in 60 -N3 -n3 --hvd-min=3 --hvd-start-timeout=2s --hvd-lease=1s sh -c "$script" "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" 'as not all ranks have joined; --hvd-start-timeout waits longer'
}

@test "with too few left the step ends with the status of the first failure" {
    step 7 -N2 -n3 --hvd-min=3 "$elastic" 1@exit
    expect_text "$output" '2 of 3 ranks are left, too few to go on'
    grep -q '^hvd: rank 1 (n[12], pid [0-9]*) failed first: exited with status 7' <<<"$output"
}

@test "the status is that of the ranks that were left" {
    step 9 -N2 -n4 --hvd-min=1 sh -c '"$1" 1@10; s=$?; [ "$SLURM_PROCID" != 2 ] || exit 9; exit $s' sh "$elastic"
    grep -q '^hvd: rank 2 (n[12], pid [0-9]*) ended first: exited with status 9, .* after hvd_shutdown' <<<"$output"
}

@test "the state is that of the last commit, whichever node is left" {
    step 0 -N3 -n3 --hvd-min=1 "$state" 5 0@12:kill 1@25:kill
    grep -q '^done\|^rank 0' <<<"$output"
}

@test "hvd.elastic in Python goes on when nodes are lost one after the other" {
    need_python numpy
    export PYTHONPATH=$HVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
    step 0 -N3 -n3 --hvd-min=1 "$PYTHON" "$HVD_SOURCE/tests/python/elastic_training.py" 5 0@7:kill 1@15:save
    expect_line "$output" 'rank 0 of 1, once rank 2: epochs 3@0 2@5 1@15, resets [2, 1]'
}

@test "#SBATCH --hvd-min makes the steps of the script elastic" {
    cat >"$CLUSTER/elastic.sh" <<END
#!/bin/bash
#SBATCH -N3 -n3 --hvd-min=2 --no-kill --output=$CLUSTER/tmp/user/elastic.out
srun "$elastic" 1@10
echo "srun exited with \$?"
END
    sbatch_in 60 "$CLUSTER/elastic.sh"
    cat "$CLUSTER/tmp/user/elastic.out"
    grep -q '^hvd: 2 of 3 ranks go on as epoch 2, without rank 1$' "$CLUSTER/tmp/user/elastic.out"
    grep -q '^srun exited with 0$' "$CLUSTER/tmp/user/elastic.out"
}

@test "without the driver of its epochs a step that loses no rank goes on" {
    ELASTIC_STEP_US=50000 login_in 60 srun -N3 -n3 --hvd-min=2 "$state" 5 >"$CLUSTER/driver.out" 2>&1 3>&- &
    local job=$!
    timeout 30 sh -c 'until grep -q "^epoch of 3 ranks" "$1/driver.out" 2>/dev/null; do sleep 0.05; done' sh "$CLUSTER"
    login_in 10 pkill -KILL -x hvdepochs
    local begin=$SECONDS
    wait "$job" || { cat "$CLUSTER/driver.out"; false; }
    expect_line "$(<"$CLUSTER/driver.out")" 'rank 0 of 3, once rank 0: all steps are right'
    [ $((SECONDS - begin)) -lt 10 ] # each commit would ask for that long
    expect_text "$(<"$CLUSTER/driver.out")" 'hvd: hvdepochs, which decides the epochs of this step beside srun, killed by SIGKILL: ranks that work go on'
}

# step_needs_driver ARGS of srun: begin a step whose starts have far more time than this test
step_needs_driver() {
    HVD_START_TIMEOUT=10min login_in 100 srun -N3 -n3 --hvd-min=2 "$@" >"$CLUSTER/needs.out" 2>&1 3>&- &
    needs=$!
}

# The step has ended as COUNT ranks were told that the driver has.
all_are_told() {
    local status=0
    wait "$needs" || status=$?
    output=$(<"$CLUSTER/needs.out")
    echo "$status: $output"
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    [ "$(grep -c 'the launcher of this elastic job (of srun: hvdepochs) has ended, as nobody listens at ' <<<"$output")" -eq "$1" ]
    expect_text "$output" 'this step beside srun, killed by SIGKILL'
}

@test "without it ranks that wait for a start, or come to one later, are told at once" {
    local file=$CLUSTER/tmp/user/killed
    step_needs_driver sh -c '[ $SLURM_PROCID != 2 ] || until [ -e "$2" ]; do sleep 0.05; done; exec "$1"' sh "$elastic" "$file"
    # the sockets of its listener, the reports and two ranks
    login_in 60 sh -c 'until [ "$(find "/proc/$(pgrep -x hvdepochs)/fd" -lname "socket:*" 2>/dev/null | wc -l)" -ge 4 ]; do sleep 0.05; done'
    login_in 10 pkill -KILL -x hvdepochs
    touch "$file"
    all_are_told 3
}

@test "without it the ranks that are left by a loss are told at once" {
    ELASTIC_STEP_US=350000 step_needs_driver "$state" 5
    await 30 grep -q '^epoch of 3 ranks' "$CLUSTER/needs.out"
    login_in 10 pkill -KILL -x hvdepochs
    login_in 10 pkill -KILL -o -x elastic_state
    all_are_told 2
}

@test "ranks are killed, as some seeds choose" {
    login_in 200 env HVD_BUILD="$HVD_BUILD" "$HVD_SOURCE/tests/chaos/elastic" --steps --seeds 1 12
}

@test "nodes are stopped as a whole, as some seeds choose" {
    login_in 250 env HVD_BUILD="$HVD_BUILD" "$HVD_SOURCE/tests/chaos/elastic" --freeze --steps --seeds 1 3
}

# training ARGS of srun: begin to train in a step of six ranks that does not end by itself
training() {
    training_by srun "$@"
}

# training_by COMMAND...: the same, by srun in this command
training_by() {
    begin_in 150 "$@" --hvd-min=3 "$train" --epochs=1000000
    shows 'epoch 3 '
}

stop_training() {
    login_in 10 scancel --user=root
    wait "$job" || true
}

lost_n3='hvd: 4 of 6 ranks go on as epoch [23], without ranks 4, 5$'

@test "a node that is cut off is lost within the lease, and its ranks do not come back" {
    training -N3 -n6 --hvd-lease=2s
    node_in 10 n3 ip link set eth0 down
    shows "$lost_n3"
    goes_on
    node_in 10 n3 ip link set eth0 up
    shows '.*the others go on without it'
    stop_training
}

@test "a job that scontrol shrinks goes on without the ranks of the nodes that it has lost" {
    training_by salloc -Q -N3 -n6 --no-kill srun
    login_in 10 scontrol update "JobId=$(login_in 10 squeue -h -o %A)" NumNodes=2
    shows "$lost_n3"
    goes_on
    stop_training
}

@test "a node that is drained keeps its ranks, and one that is set down is lost" {
    training -N3 -n6
    login_in 10 scontrol update NodeName=n3 State=DRAIN Reason=test
    [ "$(login_in 10 sinfo -h -n n3 -o %T)" = draining ]
    goes_on
    expect_no_text "$(<"$out")" hvd
    login_in 10 scontrol update NodeName=n3 State=DOWN Reason=test
    shows "$lost_n3"
    goes_on
    stop_training
    node_returns n3
}

@test "scancel ends all tasks of a step, and kill one, which scontrol listpids finds" {
    training -N3 -n6
    local step
    step=$(login_in 10 squeue -h -s -o %i)
    run login_in 10 scancel --signal=KILL "$step.3"
    [ "$status" -ne 0 ]
    login_in 20 srun --jobid="${step%.*}" --overlap -N1 -n1 -w n2 \
        sh -c 'kill -KILL $(scontrol listpids "$0" | awk "\$5 == 3 { print \$1 }")' "$step"
    shows 'hvd: 5 of 6 ranks go on as epoch 2, without rank 3$'
    goes_on
    login_in 10 scancel --signal=KILL "$step"
    ends 137
    expect_text "$output" ' failed first: killed by SIGKILL'
}

# signal_node SIGNAL NODE [NAME]: to the ranks there and Slurm's processes, or those of this name, which share the node's
# network. Those that go on may end others at once.
signal_node() {
    node_in 10 "$2" bash -c 'for process in $(pgrep "^($2)$"); do
        [ "$(readlink "/proc/$process/ns/net")" != "$(readlink /proc/self/ns/net)" ] || kill -"$1" "$process" || [ ! -e "/proc/$process" ]
    done' bash "$1" "${3:-slurmd|slurmstepd|train}"
}

@test "a node that is stopped as a whole is lost, although its kernel answers, and its ranks do not come back" {
    training -N3 -n6 --hvd-lease=4s
    signal_node STOP n3
    shows "$lost_n3" || {
        signal_node CONT n3
        false
    }
    goes_on
    signal_node CONT n3
    shows '.*the others go on without it'
    stop_training
}

@test "a step that fails does not wait for a node that is stopped as a whole" {
    training -N3 -n3 --hvd-lease=2s
    signal_node STOP n3
    signal_node KILL n2 train
    ends 137 || {
        signal_node CONT n3
        false
    }
    signal_node CONT n3
    expect_text "$output" '2 of 3 ranks are left, too few to go on'
    expect_text "$output" 'nothing is heard of the others: scancel '
    grep -q '^hvd: rank 1 (n2, pid [0-9]*) failed first: killed by SIGKILL' <<<"$output"
}

@test "a node that is stopped as a whole with all ranks that are left is lost, and with it the step" {
    begin_in 150 srun -N3 -n3 --hvd-lease=1s --hvd-min=1 --hvd-spares=2 "$train" --epochs=1000000
    shows 'epoch 3 '
    signal_node STOP n1
    ends 137 || {
        signal_node CONT n1
        false
    }
    signal_node CONT n1
    expect_text "$output" 'rank 0 was silent for four times --hvd-lease, although its node answers'
    expect_text "$output" 'nothing is heard of the others: scancel '
    grep -q '^hvd: rank 0 .* failed first: was lost with its host' <<<"$output"
}

@test "a step whose other ranks end without asking does not wait for a node that is stopped as a whole" {
    training -N3 -n3 --hvd-lease=1s
    signal_node STOP n3
    signal_node KILL n2 train
    signal_node KILL n1 train
    ends 137 || {
        signal_node CONT n3
        false
    }
    signal_node CONT n3
    expect_text "$output" 'nothing is heard of the others: scancel '
    grep -q '^hvd: rank [01] .* failed first: killed by SIGKILL' <<<"$output"
}

@test "a rank that is alone in its epoch and computes for long is not silent" {
    export ELASTIC_STEP_US=350000
    step 0 -N1 -n1 --hvd-min=1 --hvd-lease=1s "$state" 5
    expect_no_text "$output" 'silent'
}

@test "what cannot be an elastic step is refused in one sentence" {
    step 1 -n2 --hvd-min=3 "$elastic"
    expect_text "$output" '--hvd-min=3: the step has 2 tasks; expected 1 to 2'
    run srun_in 30 -n2 --hvd-min=few "$elastic"
    [ "$status" -ne 0 ]
    expect_text "$output" '--hvd-min=few: expected a number of ranks between 1 and 1000000'
    plugstack 'epochs=/nowhere/hvdepochs'
    step 1 -n2 --hvd-min=1 "$elastic"
    expect_text "$output" '/nowhere/hvdepochs, cannot be started: No such file or directory'
}

@test "under PMIx, where a task that dies takes the step with it, none begins" {
    slurm_has_pmix || skip 'this Slurm has no PMIx'
    run srun_in 30 -n2 --mpi=pmix --hvd-min=1 "$elastic"
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" '--hvd-min needs --mpi=none'
}

# The last one: Slurm needs a while to clean up on that node.
@test "a step whose ranks have ended does not wait for a node that has vanished" {
    begin_in 200 srun -N3 -n6 --hvd-min=3 --hvd-lease=2s "$train" --epochs=20
    shows 'epoch 3 '
    node_in 10 n3 ip link set eth0 down
    ends 0
    expect_text "$output" 'epoch 20 '
    expect_text "$output" 'the ranks of epoch 2 have ended, and nothing is heard of the others: scancel '
}
