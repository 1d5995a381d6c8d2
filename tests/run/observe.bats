#!/usr/bin/env bats
# observe.bats: timelines, and the flight records that a job writes when it fails or is asked to.

setup() {
    load setup
    hvdrun=$HVD_BUILD/bin/hvdrun
    hvdinfo=$HVD_BUILD/bin/hvdinfo
    train=$HVD_BUILD/examples/train
    data=$HVD_SOURCE/examples/digits.csv
    seen=$BATS_TEST_TMPDIR/seen
    started=
    export HVD_MODULE_PATH
}

teardown() {
    end_started
}

needs_python() {
    command -v python3 >/dev/null || skip 'it needs python3 to read JSON'
}

# start_rank RANK OPTION=VALUE...: start one of two ranks, which wire up by the environment, without a launcher. Its pid,
# that of a child of this shell, is added to $started.
start_rank() {
    local rank=$1
    shift
    env RANK="$rank" WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
        HVD_JOB_KEY=0123456789abcdef0123456789abcdef "$@" \
        "$train" --data="$data" --epochs=100000 >"$BATS_TEST_TMPDIR/out.$rank" 2>&1 3>&- &
    started="$started $!"
}

# start_two OPTION=VALUE...: start both ranks, and wait until they train
start_two() {
    port=$(free_port)
    start_rank 0 "$@"
    start_rank 1 "$@"
    read -r first second <<<"$started"
    # shellcheck disable=SC2016 # sh expands it
    timeout 30 sh -c 'tail -n +1 -f "$1" --pid="$2" | grep -m 1 "^epoch 2 "' sh "$BATS_TEST_TMPDIR/out.0" "$first"
}

# await FILE TEXT: wait until the file contains the text
await() {
    local end=$((SECONDS + 20))
    until grep -qsF "$2" "$1"; do
        [ $SECONDS -lt $end ] || { echo "no \"$2\" in $1"; cat "$1"; return 1; }
        sleep 0.05
    done
}

is_json() {
    python3 -m json.tool "$1" >/dev/null
}

# ended STATUS PID: wait for the process, which must end with that status
ended() {
    local status=0
    wait "$2" || status=$?
    [ "$status" -eq "$1" ] || { echo "process $2 ended with status $status"; return 1; }
}

@test "--hvd-timeline: a file of each rank, and who was last" {
    need_hvdrun
    needs_python
    run timeout 60 "$hvdrun" -n 3 --hvd-timeline="$seen" "$train" --epochs=2
    echo "$output"
    [ "$status" -eq 0 ]
    for rank in 0 1 2; do
        is_json "$seen/rank-$rank.json"
        grep -q '"name":"waiting for peers"' "$seen/rank-$rank.json"
        grep -q '"name":"wire"' "$seen/rank-$rank.json"
        grep -q '"bytes":[1-9][0-9]*,"tensors":1,"status":"' "$seen/rank-$rank.json"
    done
    [ "$(find "$seen" -type f | wc -l)" -eq 3 ]
    # all ranks give an operation the same number
    for rank in 0 1 2; do
        grep -o '"name":"[^"]*","cat".*"number":[0-9]*' "$seen/rank-$rank.json" | sed 's/"args.*"number"/"number"/' |
            sort >"$BATS_TEST_TMPDIR/operations.$rank"
    done
    [ "$(wc -l <"$BATS_TEST_TMPDIR/operations.0")" -gt 20 ]
    cmp "$BATS_TEST_TMPDIR/operations.0" "$BATS_TEST_TMPDIR/operations.1"
    cmp "$BATS_TEST_TMPDIR/operations.0" "$BATS_TEST_TMPDIR/operations.2"
    run "$hvdinfo" trace "$seen"
    [[ $output != *"not built in"* ]] || skip 'built without jansson'
    [ "$status" -eq 0 ]
    has "3 ranks, $(wc -l <"$BATS_TEST_TMPDIR/operations.0") operations"
    has "times last"
}

@test "a timeline that cannot be written is refused at the start" {
    HVD_TIMELINE=$seen/none/deep run timeout 20 "$train" --epochs=1
    [ "$status" -eq 1 ]
    has "the timeline's folder $seen/none/deep cannot be created: No such file"
    HVD_DUMP_DIR=/dev/null run timeout 20 "$train" --epochs=1
    [ "$status" -eq 1 ]
    has "the folder /dev/null of dump-dir cannot be used: Not a directory"
}

@test "a lost rank: the other leaves its flight record, both leave JSON" {
    needs_python
    start_two HVD_DUMP_DIR="$seen" HVD_TIMELINE="$seen"
    kill -KILL "$second"
    ended 137 "$second"
    ended 1 "$first"
    cat "$seen/hvd-flight.0.txt"
    grep -q 'the last operations of rank 0 of 2 (' "$seen/hvd-flight.0.txt"
    grep -q 'because of: .*rank 1' "$seen/hvd-flight.0.txt"
    grep -q 'allreduce "gradient.layer0.weight"' "$seen/hvd-flight.0.txt"
    [ ! -e "$seen/hvd-flight.1.txt" ]
    is_json "$seen/rank-0.json"
    is_json "$seen/rank-1.json"
}

@test "SIGUSR2 writes the flight record, and the job goes on" {
    start_two HVD_DUMP_DIR="$seen"
    kill -USR2 "$first"
    await "$seen/hvd-flight.0.txt" 'because of: SIGUSR2'
    [ "$(grep -c 'allreduce "' "$seen/hvd-flight.0.txt")" -gt 10 ]
    before=$(wc -l <"$BATS_TEST_TMPDIR/out.0")
    await "$BATS_TEST_TMPDIR/out.0" "epoch $((before + 10)) "
    [ ! -e "$seen/hvd-flight.1.txt" ]
}

@test "a fatal signal leaves a flight record and the rest of the timeline, and stays what it was" {
    needs_python
    start_two HVD_DUMP_DIR="$seen" HVD_TIMELINE="$seen"
    kill -FPE "$second" # sanitizers handle SIGSEGV, but not this one
    ended 136 "$second"
    grep -q 'because of: SIGFPE' "$seen/hvd-flight.1.txt"
    is_json "$seen/rank-1.json"
    grep -q "SIGFPE: its last operations are in $seen/hvd-flight.1.txt" "$BATS_TEST_TMPDIR/out.1"
    ended 1 "$first"
}

@test "without these options nothing is written" {
    start_two
    kill -USR2 "$second"
    ended 140 "$second" # ended by SIGUSR2, as without hvd
    ended 1 "$first"
    [ ! -e "$seen" ]
    [ -z "$(find "$BATS_TEST_TMPDIR" -name 'hvd-flight*' -o -name 'rank-*')" ]
}
