#!/usr/bin/env bats
# agents.bats: elastic jobs of hvdrun --launcher=agents whose agents are all on this machine, as the stand-in beside this
# file takes the place of srun. tests/cluster/agents.bats has nodes.

# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # text for others to expand; variables of each test; those of hvdrun.bash

bats_require_minimum_version 1.5.0
load setup
load hvdrun

setup() {
    hvdrun_setup
    mkdir bin
    ln -s "$HVD_SOURCE/tests/run/srun" bin/srun
    PATH=$PWD/bin:$PATH
    export SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1,n2 SLURM_NTASKS_PER_NODE=2
}

teardown() {
    end_started
    hvdrun_teardown
}

# state OPTION... -- WORD...: train by hvd_elastic_run with commits after every five steps
state() {
    elastic_state --launcher=agents --events=events "$@"
    cat events
}

# start OPTION...: train in the background until the test stops it
start() {
    "$hvdrun" --launcher=agents --no-prefix --min-np=2 --events=events "$@" "$HVD_BUILD/examples/train" --epochs=1000000 >out 2>&1 3>&- &
    job=$!
    started=$job
    shows out '^epoch 3 '
}

# shows FILE PATTERN: wait until it has such a line
shows() {
    local end=$((SECONDS + 60 * PATIENCE))
    until grep -q "$2" "$1"; do
        [ $SECONDS -lt $end ] || {
            echo "in vain: $2"
            cat "$1"
            return 1
        }
        sleep 0.05
    done
}

# stop: end the job, which goes on otherwise
stop() {
    local status=0
    kill -TERM "$job"
    wait "$job" || status=$?
    [ "$status" -eq 143 ]
}

# agent_of NODE: print the process id of its agent, the parent of its reaper
agent_of() {
    local file
    grep -slzxF "HVDRUN_TEST_MARK=$HVDRUN_TEST_MARK" /proc/[0-9]*/environ | xargs grep -slzxF "SLURMD_NODENAME=$1" | while read -r file; do
        awk '$1 == "Name:" { name = $2 } $1 == "PPid:" && name == "hvdrun-reaper" { print $2 }' "${file%environ}status"
    done
}

@test "an agent that is stopped is killed, and the job goes on without its host" {
    SLURM_JOB_NODELIST=n1,n2,n3 start -n 4 --hvd-lease=2s
    kill -STOP "$(agent_of n1)"
    shows out '^hvdrun: the agent of n1 has been stopped for three times --hvd-lease, and is killed$'
    shows out '^hvdrun: the agent of n1 is lost: .*; the job goes on without this host$' # closed, or reset, as beats were on their way
    shows out '^hvdrun: rank [01] was lost with its host; 3 of 4 ranks go on$'
    shows events '"event":"host_left_out".*"node":"n1","reason":"its agent is lost: '
    shows events '"event":"rank_joined".*"rank":1,"node":"n3"'
    stop
}

# signal_node SIGNAL NODE: to all processes in the process namespace of its agent. Those that go on may end others at once.
signal_node() {
    local process space
    space=$(readlink "/proc/$(agent_of "$2")/ns/pid")
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/ns/pid")" != "$space" ] || kill -"$1" "${process#/proc/}" || [ ! -e "$process" ]
    done
}

apart_or_skip() {
    unshare --fork --pid --mount-proc --kill-child true 2>/dev/null || skip "nodes of this test are process namespaces, which only root may make here"
    export NODES_APART=1
}

# rank NUMBER: print its process id
rank() {
    grep -slzxF "HVDRUN_TEST_MARK=$HVDRUN_TEST_MARK" /proc/[0-9]*/environ | xargs grep -slzx "RANK=$1" | cut -d / -f 3
}

@test "the first rank of a node speaks for it: when it alone is stopped, the node's ranks are killed" {
    apart_or_skip
    start -n 4 --hvd-lease=4s
    kill -STOP "$(rank 2)" # rank 0 prints
    shows out 'rank 2 .* was lost: it was silent for three times --hvd-lease, although its node answers: it is stopped, or its node hangs'
    shows out '^hvdrun: rank [23] killed by SIGKILL; 2 of 4 ranks go on$'
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    stop
}

@test "a node that is stopped as a whole is lost, and its ranks end when it goes on" {
    apart_or_skip
    start -n 4 --hvd-lease=4s
    signal_node STOP n1
    shows out '^hvdrun: the agent of n1 is lost: it was silent for three times --hvd-lease; the job goes on without this host$'
    shows out '^hvdrun: rank [01] was lost with its host; 2 of 3 ranks go on$'
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    signal_node CONT n1
    shows out '^hvdrun: the agent of n1 has lost its hvdrun, and ends its ranks: '
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    stop
}

@test "others take the places of ranks whose node is stopped as a whole" {
    apart_or_skip
    SLURM_JOB_NODELIST=n1,n2,n3 start -n 4 --min-np=4 --hvd-lease=2s
    signal_node STOP n1
    shows events '"event":"rank_joined".*"rank":0,"node":"n3"'
    shows events '"event":"rank_joined".*"rank":1,"node":"n3"'
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    signal_node CONT n1
    shows out '^hvdrun: the agent of n1 has lost its hvdrun, and ends its ranks: '
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    stop
}

@test "an agent that is stopped for a moment loses nothing" {
    local agent
    start -n 4 --hvd-lease=20s
    agent=$(agent_of n2) # rank 0, which prints, is on n1
    kill -STOP "$agent"
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    kill -CONT "$agent"
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    run grep 'lost\|stopped' out events # before the end: a rank that ends first is lost to the others
    echo "$output"
    [ "$status" -eq 1 ] # none
    stop
}

@test "a host on which a rank has failed is left out for a time that grows, and returns" {
    state -n 4 --min-np=1 --host-cooldown=1s:10s -- 1@10:kill 0@20:news 2@20:news 3@20:news 0@25:kill
    [ "$status" -eq 0 ]
    has 'hvdrun: n1 is left out for 1s: rank 1 on it has failed'
    has 'hvdrun: n1 is left out for 2s: rank 0 on it has failed'
    [ "$(grep -c '"event":"host_left_out".*"node":"n1","reason":"rank 1 on it has failed","cooldown":1.000000' events)" -eq 1 ]
    [ "$(grep -c '"event":"host_left_out".*"node":"n1","reason":"rank 0 on it has failed","cooldown":2.000000' events)" -eq 1 ]
    [ "$(sed -n 's/.*"event":"\(host_returned\|rank_replaced\)".*"node":"\(n[0-9]\)".*/\1 \2/p' events | head -n 2 | xargs)" = 'host_returned n1 rank_replaced n1' ]
}

@test "a rank of a host that is left out is started elsewhere at once" {
    SLURM_JOB_NODELIST=n1,n2,n3 state -n 4 --min-np=4 --host-cooldown=5min:10min -- 1@10:kill
    [ "$status" -eq 0 ]
    has 'hvdrun: n1 is left out for 5min: rank 1 on it has failed'
    grep -q '"event":"rank_replaced".*"rank":1,"node":"n3"' events
}

@test "an agent that is lost is started again when its host returns" {
    start -n 4 --host-cooldown=1s:10s
    kill -KILL "$(agent_of n1)"
    shows out '^hvdrun: the agent of n1 is lost: it closed the connection; the job goes on without this host for 1s$'
    shows events '"event":"host_returned".*"node":"n1"'
    shows events '"event":"rank_replaced".*"rank":1,"node":"n1"'
    stop
}

# replace FILE: by one with another inode, as packages do, whose bytes are those of standard input
replace() {
    cat >"$1.new"
    chmod 755 "$1.new"
    mv "$1.new" "$1"
}

@test "agents start although the file of hvdrun was replaced, but none of another version" {
    local version
    version=$("$hvdrun" --version | cut -d ' ' -f 2)
    cp "$hvdrun" bin/hvdrun
    hvdrun=$PWD/bin/hvdrun
    start -n 4 --host-cooldown=1s:10s
    replace bin/hvdrun <"$HVD_BUILD/bin/hvdrun"
    kill -KILL "$(agent_of n1)"
    shows events '"event":"rank_replaced".*"rank":1,"node":"n1"'
    sed "s/$version/${version//[0-9]/9}/g" "$HVD_BUILD/bin/hvdrun" | replace bin/hvdrun
    kill -KILL "$(agent_of n1)"
    shows out "^hvdrun: n1 is left out for 4s: it has hvd ${version//[0-9]/9} now, and this job was started with hvd $version; install that again, "
    shows out "^epoch $(($(grep -c '^epoch' out) + 30)) "
    stop
}

@test "a host that joins is asked by its own --health-check, which does not see the key" {
    export HVD_JOB_KEY=0123456789abcdef0123456789abcdef
    SLURM_JOB_NODELIST=n1 start -n 2 --max-np=3 --health-check='echo "at the job: $HVD_JOB_KEY" >>seen'
    local port
    port=$(sed -n 's/^hvdrun: other hosts join by hvdrun --join=[^:]*:\([0-9]*\) .*/\1/p' out)
    run timeout -k 5 60 "$hvdrun" --join="localhost:$port" --health-check='echo no GPU; exit 3' "$HVD_BUILD/examples/train"
    [ "$status" -eq 1 ]
    [ "$output" = "hvdrun: --health-check: 'echo no GPU; exit 3' exited with status 3: no GPU" ]
    "$hvdrun" --join="localhost:$port" --health-check='echo "at the guest: $HVD_JOB_KEY" >>seen' "$HVD_BUILD/examples/train" \
        --epochs=1000000 >guest 2>&1 3>&- &
    local guest=$!
    started+=" $guest"
    shows out "^hvdrun: $(hostname) joins with 1 slot$"
    shows events '"event":"rank_joined".*"rank":2'
    stop
    wait "$guest"
    [ "$(<seen)" = $'at the job: \nat the guest: ' ]
}

@test "when the host of all ranks is lost they start again on others" {
    SLURM_NTASKS_PER_NODE=3 start -n 3 --min-np=3
    kill -KILL "$(agent_of n1)"
    shows out '^hvdrun: rank [0-2] was lost with its host; 0 of 1 ranks wait for others$'
    shows events '"event":"epoch_formed".*"epoch":2,"ranks":3'
    shows events '"event":"rank_started".*"rank":2,"node":"n2"'
    stop
}

@test "when no host is left, the last line says that the first rank was lost with its own" {
    SLURM_JOB_NODELIST=n1 start -n 2
    kill -KILL "$(agent_of n1)"
    local status=0
    wait "$job" || status=$?
    cat out
    [ "$status" -eq 137 ]
    tail -n 1 out | grep '^hvd: rank [01] (n1, pid [0-9]*) failed first: was lost with its host, '
}
