#!/usr/bin/env bats
# elastic_growth.bats: an elastic job grows and shrinks with the slots that its hosts have. elastic_state.c checks each step
# and changes the hosts.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # text for others to expand; variables of each test; those of hvdrun.bash

bats_require_minimum_version 1.5.0
load setup
load hvdrun
load python

setup() {
    hvdrun_setup
    export ELASTIC_HOSTS=$BATS_TEST_TMPDIR/hosts
}

# hosts N: they have N slots from now on
hosts() {
    echo "localhost:$1" >"$ELASTIC_HOSTS.new"
    mv "$ELASTIC_HOSTS.new" "$ELASTIC_HOSTS"
}

# state OPTION... -- WORD...: train by hvd_elastic_run with commits after every five steps; FROM is where epochs begin
state() {
    elastic_state "$@"
    from=$(sed -n 's/^epoch of \([0-9]*\) ranks from step \([0-9]*\)$/\1@\2/p' <<<"$output" | xargs)
}

# happened: print what became of the job after its first epoch, and for how long its host was left out
happened() {
    "$PYTHON" -c 'import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
begun = [event["event"] for event in events].index("epoch_formed")
for event in events[begun + 1:]:
    if event["event"] not in ("rank_exited", "job_failed", "job_ended"):
        print(event["event"], event.get("cooldown", ""))' "$BATS_TEST_TMPDIR/events"
}

# all_wait STEP SLOT...: the words by which these wait in this step until ranks join or one is lost
all_wait() {
    local slot
    for slot in "${@:2}"; do
        echo "$slot@$1:news"
    done
}

@test "a job grows from two ranks to four, and shrinks to three, as a script says" {
    for backends in shm,local tcp,local; do
        hosts 2
        # shellcheck disable=SC2046 # words
        state -n 2 --min-np=1 --max-np=4 --host-discovery="cat $ELASTIC_HOSTS" --hvd-backends=$backends -- \
            0@12:hosts4 $(all_wait 12 0 1) 0@23:hosts3 $(all_wait 23 0 1 2 3)
        [ "$status" -eq 0 ]
        [ "$from" = '2@0 4@12 3@23' ] # no step is lost
        has 'rank 0 of 3, once rank 0: all steps are right'
        has 'hvdrun: the hosts have 4 slots; 2 more ranks start'
        has 'hvdrun: the hosts have 3 slots; 1 rank leaves'
        [[ $output != *'go on'* && $output != *'lost'* ]] # which is no failure
    done
}

@test "it does so as a hostfile says that changes, and a slot that comes back is used again" {
    hosts 2
    # shellcheck disable=SC2046 # words
    state -n 2 --min-np=1 --max-np=3 --hostfile="$ELASTIC_HOSTS" -- \
        0@5:hosts3 $(all_wait 5 0 1) 0@15:hosts1 $(all_wait 15 0 1 2) 0@16:hosts3 $(all_wait 16 0)
    [ "$status" -eq 0 ]
    [ "$from" = '2@0 3@5 1@15 3@16' ]
    has 'rank 0 of 3, once rank 0: all steps are right'
    has 'hvdrun: the hosts have 1 slot; 2 ranks leave'
}

@test "a failure is no reason to grow where nothing says that there is room" {
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --min-np=1 --max-np=4 "$HVD_BUILD/tests/run/elastic" 0@10
    echo "$output"
    [ "$status" -eq 0 ]
    has 'hvdrun: warning: --max-np=4: nothing says when there is room for more than 2 ranks'
    has 'hvdrun: rank 0 killed by SIGKILL; 1 of 2 ranks go on'
    [[ $output != *' start'* ]]
    has 'rank 0 of 1, once rank 1, after 1 losses'
}

@test "a host on which a rank failed is left out for a time, and returns" {
    need_python json
    # shellcheck disable=SC2046 # words
    state -n 2 --min-np=1 --host-cooldown=300ms:1s --events="$BATS_TEST_TMPDIR/events" -- 0@3:kill $(all_wait 8 1)
    [ "$status" -eq 0 ]
    has 'hvdrun: rank 0 killed by SIGKILL; 1 of 2 ranks go on; this host is left out for 300ms'
    has 'hvdrun: the hosts have 2 slots; 1 more rank starts'
    [ "$from" = '2@0 1@0 2@8' ]
    [ "$(happened | xargs)" = 'rank_lost host_left_out 0.3 epoch_formed host_returned rank_started epoch_formed rank_replaced' ]
}

@test "it is left out for longer each time, as long as --reset-limit lets it" {
    need_python json
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --min-np=2 --host-cooldown=100ms:300ms --reset-limit=3 \
        --events="$BATS_TEST_TMPDIR/events" "$HVD_BUILD/tests/run/elastic" 0@always
    echo "$output"
    [ "$status" -eq 1 ]
    has 'the ranks of the job have changed more than 3 times (--reset-limit)'
    [ "$(happened | grep host_left_out | xargs)" = 'host_left_out 0.1 host_left_out 0.2 host_left_out 0.3 host_left_out 0.3' ]
}

@test "a command of the site may refuse the host, and says why" {
    need_python json
    local events=$BATS_TEST_TMPDIR/events
    run timeout -k 5 60 "$hvdrun" --health-check='echo "no GPU"; exit 3' --events="$events" -n 2 --min-np=1 true
    echo "$output"
    [ "$status" -eq 75 ]
    [ "$output" = "hvdrun: --health-check: 'echo \"no GPU\"; exit 3' exited with status 3: no GPU" ]
    "$PYTHON" -c 'import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
assert [event["event"] for event in events] == ["host_left_out", "job_ended"], events
assert events[0]["cooldown"] == 0 and events[0]["reason"].endswith("exited with status 3: no GPU"), events' "$events"
    # it is asked before any rank starts, of every job of hvdrun
    run timeout -k 5 60 "$hvdrun" --health-check="echo asked >$BATS_TEST_TMPDIR/asked" -n 2 grep -q asked "$BATS_TEST_TMPDIR/asked"
    echo "$output"
    [ "$status" -eq 0 ] && [ -z "$output" ]
}

@test "a signal ends hvdrun while the command of the site runs, and that with it" {
    local status=0
    mkfifo "$BATS_TEST_TMPDIR/runs"
    timeout -k 5 60 "$hvdrun" --health-check="echo >$BATS_TEST_TMPDIR/runs; sleep 1000" -n 1 true 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    local job=$!
    read -r <"$BATS_TEST_TMPDIR/runs"
    kill -TERM "$job" # timeout passes it on
    wait "$job" || status=$?
    cat "$BATS_TEST_TMPDIR/err"
    grep -q '^hvdrun: interrupted by signal 15 (Terminated) during --health-check$' "$BATS_TEST_TMPDIR/err"
}

@test "it never shrinks below --min-np, and begins with as many ranks as there are slots" {
    hosts 3
    # shellcheck disable=SC2046 # words
    state --min-np=2 --max-np=4 --host-discovery-script="cat $ELASTIC_HOSTS" -- 0@10:hosts1 $(all_wait 10 0 1 2)
    [ "$status" -eq 0 ]
    [ "$from" = '3@0 2@10' ]
    has 'hvdrun: the hosts have 1 slot; 1 rank leaves'
    # hosts without a number
    echo localhost >"$ELASTIC_HOSTS"
    state --min-np=2 --max-np=4 --slots-per-host=2 --host-discovery="cat $ELASTIC_HOSTS" --
    [ "$status" -eq 0 ]
    [ "$from" = '2@0' ]
}

@test "a rank that has left, and does not end, is killed after the grace time" {
    hosts 2
    # shellcheck disable=SC2046 # words
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --min-np=1 --grace=500ms --host-discovery="cat $ELASTIC_HOSTS" \
        sh -c '[ "$RANK" = 0 ] || trap "" TERM; exec "$@"' sh "$HVD_BUILD/tests/run/elastic_state" 5 \
        0@10:hosts1 $(all_wait 10 0 1) 0@15:hosts2 $(all_wait 15 0)
    echo "$output"
    [ "$status" -eq 0 ]
    has 'epoch of 1 ranks from step 10'
    has 'epoch of 2 ranks from step 15' # in the slot that had to be free
}

@test "the last rank that has the state stays until another one has it" {
    hosts 2
    ELASTIC_STEP_US=50000 state -n 2 --min-np=1 --max-restarts=1 --hostfile="$ELASTIC_HOSTS" -- 0@10:kill 1@12:hosts1 1@12:news
    [ "$status" -eq 0 ]
    [[ $from =~ ^'2@0 1@10 2@12 1@'[0-9]+$ ]]
    has 'rank 0 of 1, once rank 0: all steps are right'
}

@test "ranks that never ask for news lose one that must leave after --elastic-timeout" {
    hosts 2
    ELASTIC_STEP_US=60000 run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --min-np=1 --hostfile="$ELASTIC_HOSTS" --elastic-timeout=1s \
        sh -c 'echo localhost:1 >"$ELASTIC_HOSTS"; exec "$@"' sh "$HVD_BUILD/tests/run/elastic"
    echo "$output"
    [ "$status" -eq 0 ]
    has 'rank 0 of 1, once rank 0, after 1 losses'
}

@test "it is not to blame when the job fails later" {
    hosts 2
    # shellcheck disable=SC2046 # words
    state -n 2 --min-np=1 --hostfile="$ELASTIC_HOSTS" -- 0@10:hosts1 $(all_wait 10 0 1) 0@25:kill
    [ "$status" -eq 137 ]
    [[ ${lines[-1]} == 'hvd: rank 0 ('*') failed first: killed by SIGKILL, '* ]]
}

@test "newcomers that were started together join together" {
    hosts 2
    # shellcheck disable=SC2046 # words
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --max-np=4 --hostfile="$ELASTIC_HOSTS" \
        sh -c '[ "$RANK" != 3 ] || sleep 1; exec "$@"' sh "$HVD_BUILD/tests/run/elastic_state" 5 0@10:hosts4 $(all_wait 10 0 1)
    echo "$output"
    [ "$status" -eq 0 ]
    has 'epoch of 4 ranks from step 10'
}

@test "a newcomer that fails harms nobody, and is started again if --max-restarts says so" {
    local restarts first
    for restarts in 0 1; do
        hosts 2
        first=2$([ $restarts = 0 ] || echo 0) # slot 2, and HVD_RESTART where there are restarts
        # shellcheck disable=SC2046 # words
        run timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --min-np=2 --max-np=4 --max-restarts=$restarts --hostfile="$ELASTIC_HOSTS" \
            sh -c '[ "$RANK$HVD_RESTART" != "$0" ] || exit 3; exec "$@"' "$first" \
            "$HVD_BUILD/tests/run/elastic_state" 5 0@10:hosts4 $(all_wait 10 0 1)
        echo "$output"
        [ "$status" -eq 0 ]
        has 'hvdrun: rank 2 exited with status 3; 3 of 4 ranks go on'
        has 'all steps are right'
    done
    has 'restart 1 of 1'
}

@test "too few wait for newcomers, longer than a start may take" {
    hosts 2
    timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --min-np=2 --max-np=3 --hostfile="$ELASTIC_HOSTS" --hvd-start-timeout=1s \
        "$HVD_BUILD/tests/run/elastic_state" 5 1@12:kill >out 2>&1 3>&- &
    [ -z "$(await_none not_yet 'hvdrun: rank 1 killed by SIGKILL; 1 of 2 ranks wait for others')" ]
    sleep 1.5 # more than --hvd-start-timeout
    hosts 3
    wait $! || { cat out; false; }
    grep -x 'epoch of 2 ranks from step 10' out
    grep -x 'rank 0 of 2, once rank 0: all steps are right' out
}

@test "it ends when nobody joins within --elastic-timeout" {
    hosts 2
    state -n 2 --min-np=2 --max-np=3 --hostfile="$ELASTIC_HOSTS" --elastic-timeout=500ms -- 1@12:kill
    [ "$status" -eq 75 ]
    has 'hvdrun: 1 rank is left, fewer than --min-np=2, and too few others have joined within 500ms (--elastic-timeout)'
    # those that are started again too late
    state -n 3 --min-np=2 --max-restarts=1 --elastic-timeout=500ms -- 0@12:kill 2@12:kill
    [ "$status" -eq 75 ]
}

@test "it ends when its ranks have changed too often" {
    state -n 4 --min-np=1 --reset-limit=2 -- 3@6:kill 2@12:kill
    [ "$status" -eq 0 ]
    state -n 4 --min-np=1 --reset-limit=1 -- 3@6:kill 2@12:kill
    [ "$status" -eq 1 ]
    has 'hvdrun: the ranks of the job have changed more than 1 time (--reset-limit)'
}

@test "it begins when the hosts have enough slots" {
    hosts 1
    timeout -k 5 60 "$hvdrun" --no-prefix -n 2 --host-discovery="cat $ELASTIC_HOSTS" "$HVD_BUILD/tests/run/elastic_state" 5 >out 2>&1 3>&- &
    [ -z "$(await_none not_yet 'hvdrun: the job begins with 2 ranks, but the hosts have 1 slot; waiting up to 10min for more (--elastic-timeout)')" ]
    hosts 2
    wait $! || { cat out; false; }
    grep -x 'rank 0 of 2, once rank 0: all steps are right' out
}

@test "it does not begin when they never have" {
    hosts 1
    run timeout -k 5 60 "$hvdrun" -n 2 --hostfile="$ELASTIC_HOSTS" --min-np=1 --elastic-timeout=500ms true
    echo "$output"
    [ "$status" -eq 75 ]
    has 'hvdrun: the job begins with 2 ranks, but the hosts have had no more than 1 slot for 500ms (--elastic-timeout)'
    timeout -k 5 60 "$hvdrun" -n 2 --host-discovery="cat $ELASTIC_HOSTS" true >out 2>&1 3>&- &
    [ -z "$(await_none not_yet 'hvdrun: the job begins with 2 ranks, but .*')" ]
    kill -TERM "$(pgrep -P $! -x hvdrun)"
    wait $! || status=$?
    [ "$status" -eq 143 ]
    grep 'hvdrun: interrupted by signal 15' out
}

@test "a script whose first answer is wrong starts nothing" {
    local answer
    for answer in 'exit 3' 'echo node7:2' 'echo localhost:0' 'echo localhost four' 'echo' 'echo -x' 'printf "a\0b"' 'yes localhost'; do
        run timeout -k 5 60 "$hvdrun" -n 2 --host-discovery="$answer" touch started
        echo "$answer: $output"
        [ "$status" -eq 2 ]
        [ ! -e started ]
        has 'hvdrun: --host-discovery: '
    done
    run timeout -k 5 60 "$hvdrun" -n 2 --host-discovery='echo localhost; echo node7:2' true
    has 'hvdrun: --host-discovery: node7 is another machine, and without agents a job grows and shrinks on this one only; in a job of Slurm give --launcher=agents'
}

# answer COMMAND: the script does this from now on; returns when it has done so, and begun to again
answer() {
    local runs
    echo "$1" >answer.new
    mv answer.new answer
    runs=$(($(wc -l <runs) + 2))
    until [ "$(wc -l <runs)" -ge $runs ]; do
        kill -0 "$job" || { cat out; return 1; }
        sleep 0.05
    done
}

@test "one that is wrong later is complained of once, and what it said before stays" {
    local job
    : >runs
    echo 'echo localhost:2' >answer
    timeout -k 5 100 "$hvdrun" -n 2 --max-np=4 --host-discovery='echo >>runs; . ./answer' \
        sh -c 'until [ -e done ]; do sleep 0.05; done' >out 2>&1 3>&- &
    job=$!
    await_lines runs 1
    answer 'echo localhost:2'
    answer 'exit 3'
    answer 'exit 3'
    answer 'kill -TERM $$'
    answer 'echo node7'
    answer 'echo localhost:2'
    answer 'exit 3'
    answer '[ -e hung ] || { : >hung; sleep 1000; }; echo localhost:2' # it does not end the first time
    touch "done"
    wait $job || { cat out; false; }
    cat out
    [ "$(grep -c . out)" -eq 5 ]
    [ "$(grep -c 'exited with status 3; the job keeps the 2 slots that it has' out)" -eq 2 ]
    grep "^hvdrun: --host-discovery: 'echo >>runs; . ./answer' killed by SIGTERM.*; the job keeps" out
    grep '^hvdrun: --host-discovery: node7 is another machine' out
    grep "did not end within 10 s, and was killed; the job keeps" out
}

@test "no script outlives hvdrun" {
    timeout -k 5 60 "$hvdrun" -n 2 --host-discovery='echo $$ >script; exec sleep 1000' true >out 2>&1 3>&- &
    until [ -s script ]; do sleep 0.05; done
    kill -KILL "$(pgrep -P $! -x hvdrun)"
    wait $! || true
    # teardown looks for it
}
