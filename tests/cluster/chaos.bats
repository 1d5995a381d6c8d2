#!/usr/bin/env bats
# chaos.bats: faults of a step's processes while tests/chaos/worker runs in it, whose every result is checked.
# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    start_slowly
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

# start OPERATIONS REACHED [ARGS]: start four ranks on two nodes, and wait until rank 0 has submitted so many operations.
start() {
    local operations=$1 reached=$2
    shift 2
    # no job but this one writes here
    srun_in 120 -N2 -n4 --hvd-stall-abort=60s "$@" \
        "$HVD_BUILD/tests/chaos/worker" 5 "$operations" 4 "$progress" >"$out" 2>&1 3>&- &
    step=$!
    await 60 submitted "$reached" || { cat "$out"; return 1; }
}

# Has rank 0 submitted so many operations?
submitted() {
    [ "$(number 0 3)" -ge "$1" ]
}

has_finished() {
    [ "$(number "$1" 1)" -eq 6 ]
}

# The slurmstepd of rank 0.
stepd() {
    # shellcheck disable=SC2016 # for awk
    login_in 10 awk '/^PPid:/ { print $2 }' "/proc/$(number 0 0)/status"
}

# kill_stepd: kill the slurmstepd of ranks 0 and 1.
kill_stepd() {
    local pid
    pid=$(stepd)
    [[ $(login_in 10 cat "/proc/$pid/comm") == slurmstepd* ]]
    login_in 10 kill -KILL "$pid"
}

step_has_ended() {
    ! kill -0 "$step" 2>/dev/null
}

# ends_within SECONDS: wait for srun, whose status is then in `status`.
ends_within() {
    await "$1" step_has_ended || { echo "srun still waits: $(<"$out")"; return 1; }
    status=0
    wait "$step" || status=$?
    echo "srun ended with $status: $(<"$out")"
}

# all_told PATTERN: each rank that was told of a failure was told of one like this, and one was.
all_told() {
    ! grep 'worker: rank .*: told' "$out" | grep -v "told -8: .*$1"
    grep -q "told -8: .*$1" "$out"
}

# The processes of the step that are left on the nodes.
left() {
    node_in 10 n1 pgrep -f '^[^ ]*chaos/(.libs/)?(lt-)?worker 5 ' || true
}

none_left() {
    [ -z "$(left)" ]
}

await_none_left() {
    await 15 none_left || { echo "left: $(left)"; return 1; }
}

@test "a rank that is killed is named by the others, and the step ends" {
    local status=0 rank
    start 100000 100
    [ -n "$(left)" ] # what the tests look for at their end
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

@test "ranks finish their work although their node's slurmstepd was killed, and srun --wait ends the step" {
    local rank
    start 2000 20 --wait=2
    kill_stepd
    [ "$(number 0 1)" -lt 5 ] # the ranks had not come to the end
    for rank in 0 1 2 3; do
        await 90 has_finished $rank || { cat "$out"; return 1; }
    done
    # without --wait srun waits for the slurmstepd for ever, as it does for any program
    ends_within 30
    expect_text "$(<"$out")" 'tasks 0-1: running'
    expect_no_text "$(<"$out")" 'told'
    await_none_left
}

@test "a rank that is killed after its slurmstepd is named by the ranks of the other node, and srun --wait ends the step" {
    start 1000000 20 --wait=2
    kill_stepd
    login_in 10 kill -KILL "$(number 1 0)"
    ends_within 40
    [ "$status" -ne 0 ]
    all_told 'rank 1 (n1, pid [0-9]*) was lost'
    [[ $(tail -n 1 "$out") == 'hvd: rank '[23]' (n2, '*') failed first: exited with status 3, '*'rank 1 (n1, '*') was lost: '* ]]
    await_none_left
}

# ---- the last tests: n3 has no slurmd after the first, and n2 is no more after the second ----

@test "a step goes on although a slurmd was killed, and a rank of that node is named as ever" {
    start 1000000 20 -w n1,n3
    node_in 5 n3 kill -KILL "$(<"$CLUSTER/pid-n3")"
    await 60 submitted $(($(number 0 3) + 100))
    login_in 10 kill -KILL "$(number 3 0)"
    ends_within 40
    [ "$status" -eq 137 ]
    all_told 'rank 3 (n3, pid [0-9]*) was lost'
    [[ $(tail -n 1 "$out") == 'hvd: rank 3 (n3, pid '*') failed first: killed by SIGKILL, '*'; 3 other ranks ended after it' ]]
    await_none_left
}

# vanish NODE: nothing comes from this node any more, and no process of it is left.
vanish() {
    login_in 10 ip link set "port-$1" down
    # some end between being looked at and being killed
    # shellcheck disable=SC2016 # for sh
    login_in 10 sh -c 'node=$(readlink "/proc/$0/ns/uts") || exit 1
        for one in /proc/[0-9]*; do
            [ "$(readlink "$one/ns/uts")" != "$node" ] || kill -KILL "${one#/proc/}" || [ ! -e "$one" ] || exit 1
        done' "$(<"$CLUSTER/pid-$1")"
}

@test "a node that vanishes is named by the ranks of the other one, and scancel ends the step" {
    start 1000000 20 -w n1,n2 --hvd-lease=2s
    vanish n2
    await_none_left
    # without it srun waits until slurmctld takes the node for lost, as it does for any program
    login_in 20 scancel --user=root
    ends_within 40
    [ "$status" -ne 0 ]
    all_told 'rank [23] (n2, pid [0-9]*) was lost'
    [[ $(tail -n 1 "$out") == 'hvd: rank '[01]' (n1, '*') failed first: exited with status 3, '*'rank '[23]' (n2, '*') was lost: '* ]]
}
