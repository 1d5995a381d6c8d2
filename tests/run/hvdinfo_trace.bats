#!/usr/bin/env bats
# hvdinfo_trace.bats: hvdinfo trace on recorded timelines, and on files that are not timelines.

setup() {
    load setup
    hvdinfo=$HVD_BUILD/bin/hvdinfo
    "$hvdinfo" trace /nowhere 2>&1 | grep -q 'trace is not built in' && skip 'built without jansson'
    samples=$HVD_SOURCE/tests/data/timeline
    jobs=$BATS_TEST_TMPDIR/jobs
    mkdir "$jobs"
    cp "$samples"/rank-*.json "$jobs"
    chmod -R u+w "$jobs"
}

# refused TEXT: hvdinfo trace of that folder fails with one sentence that contains TEXT
refused() {
    run "$hvdinfo" trace "$jobs"
    [ "$status" -eq 1 ]
    has "$1"
    [ "$(grep -c '^hvdinfo: ' <<<"$output")" -eq "$(grep -c . <<<"$output")" ]
}

# edit RANK SED-SCRIPT: change the timeline of a rank
edit() {
    LC_ALL=C sed -i "$2" "$jobs/rank-$1.json"
}

needs_python() {
    command -v python3 >/dev/null || skip 'it needs python3 to read JSON'
}

@test "the table says who was last, how often and what it cost" {
    run "$hvdinfo" trace "$jobs"
    [ "$status" -eq 0 ]
    has "3 ranks, 6 operations, 6 of them on two ranks or more"
    has "clocks agree to within 12 us"
    ranks=$(awk '/^ *rank .*host$/ { on = 1; next } /^$/ { on = 0 } on { print $1, $2, $3, $4, $5 }' <<<"$output")
    [ "$ranks" = $'1 4 1.120 2.320 n1\n2 2 0.050 0.120 n2' ]
    operations=$(awk '/operation$/ { on = 1; next } on' <<<"$output" | tr -s ' ')
    printf '%s\n' "$operations"
    [ "$(sed -n 1p <<<"$operations")" = ' 1 2 0.560 1.160 allreduce "layer1."bias""' ]
    [ "$(sed -n 4p <<<"$operations")" = ' 2 1 0.010 0.030 barrier' ]
}

@test "--output puts the timelines on one clock" {
    needs_python
    run "$hvdinfo" trace "$jobs" "--output=$BATS_TEST_TMPDIR/all.json"
    [ "$status" -eq 0 ]
    has "3 ranks, 6 operations"
    python3 - "$BATS_TEST_TMPDIR/all.json" <<'PYTHON'
import json, sys
events = json.load(open(sys.argv[1]))
assert len(events) == 3 * (2 + 5 * 6 + 3), len(events)
begin = {pid: min(e["ts"] for e in events if e["pid"] == pid and e["ph"] == "X") for pid in range(3)}
assert begin[2] - begin[0] == 20, begin  # its clock was a second ahead
assert not any(e["name"] == "hvd_clock" for e in events)
PYTHON
}

@test "--output=- leaves standard output to the timeline" {
    needs_python
    "$hvdinfo" trace --output=- "$jobs" 2>"$BATS_TEST_TMPDIR/table" | python3 -m json.tool >/dev/null
    grep -q "times last" "$BATS_TEST_TMPDIR/table"
}

@test "a timeline that was cut counts as far as it goes" {
    needs_python
    head -c 1500 "$samples/rank-1.json" >"$jobs/rank-1.json"
    run "$hvdinfo" trace "$jobs" "--output=$BATS_TEST_TMPDIR/all.json"
    [ "$status" -eq 0 ]
    has "note: $jobs/rank-1.json was cut; the events that are whole are used"
    has "6 operations, 6 of them"
    python3 -m json.tool "$BATS_TEST_TMPDIR/all.json" >/dev/null
    # only the closing bracket is missing
    sed '$d' "$samples/rank-1.json" >"$jobs/rank-1.json"
    run "$hvdinfo" trace "$jobs"
    [ "$status" -eq 0 ]
    has "rank-1.json was cut"
    # nothing usable is left
    head -c 60 "$samples/rank-1.json" >"$jobs/rank-1.json"
    refused "rank-1.json says neither its rank nor its clock"
    : >"$jobs/rank-1.json"
    refused "rank-1.json says neither its rank nor its clock"
}

@test "a rank that is missing is told" {
    rm "$jobs/rank-1.json"
    run "$hvdinfo" trace "$jobs"
    [ "$status" -eq 0 ]
    has "note: 2 of the job's 3 ranks have a timeline here"
}

@test "a clock that was not compared is told" {
    edit 2 's/"error_us":12/"error_us":-1/'
    run "$hvdinfo" trace "$jobs"
    [ "$status" -eq 0 ]
    has "note: the clock of rank 2 was not compared with that of rank 0"
}

@test "the last word on the clock counts" {
    edit 2 '4a{"ph":"M","pid":2,"name":"hvd_clock","args":{"rank":2,"size":3,"host":"n2","offset_us":-999000,"error_us":40}},'
    run "$hvdinfo" trace "$jobs"
    [ "$status" -eq 0 ]
    has "clocks agree to within 40 us"
    [[ $output =~ \ 2\ +6\  ]] # rank 2 is last in all six
}

@test "timelines of different jobs are not put together" {
    edit 0 's/"size":3/"size":4/'
    refused "is of a job of 3 ranks and $jobs/rank-0.json of one of 4; remove what an older job left behind"
    cp "$samples/rank-1.json" "$jobs/rank-0.json"
    refused "rank-0.json is the timeline of rank 1"
}

@test "what is no timeline is refused with its line" {
    edit 1 '6s/.*/{"ph":"X","name":"x","ts":1e3,"dur":1},/'
    refused "rank-1.json, line 6: ts or dur is no number of microseconds"
    edit 1 '6s/.*/{"ph":"X","name":"x","ts":9007199254740993,"dur":1},/'
    refused "line 6: ts or dur"
    edit 1 '6s/.*/{"ph":"X","name":"x","ts":1,"dur":-1},/'
    refused "line 6: ts or dur"
    edit 1 '6s/.*/{"ph":"B","name":"x","ts":1},/'
    refused "line 6: ph is neither M nor X"
    edit 1 '6s/.*/{"ph":"X","name":7,"ts":1,"dur":1},/'
    refused "line 6: an event without ph or name"
    edit 1 '6s/.*/{"ph":"X","name":"x","args":[],"ts":1,"dur":1},/'
    refused "line 6: args is no object"
    edit 1 '6s/.*/{"ph":"X","ph":"X"},/'
    refused "line 6: duplicate object key"
    edit 1 '6s/.*/{"ph":"X","name":"a\xff"},/'
    refused "line 6: unable to decode byte 0xff"
    edit 1 '6s/.*/{"ph":"X"/'
    refused "line 6:"
    edit 1 '6s/.*/]/'
    refused "line 7: more after the closing bracket"
    edit 1 '1s/.*/{/'
    refused "line 1: no opening bracket"
    head -c 100000 /dev/zero >"$jobs/rank-1.json"
    refused "line 1: the line is too long"
    printf '[%s\n' '[[[[[[[[[[' >"$jobs/rank-1.json"
    refused "line 1: no opening bracket"
}

@test "deep nesting and wrong clocks are refused" {
    { echo '['; printf '%0.s[' $(seq 5000); echo; } >"$jobs/rank-1.json"
    refused "line 2: "
    cp "$samples/rank-1.json" "$jobs"
    edit 1 's/"rank":1,"size":3/"rank":3,"size":3/'
    refused "rank-1.json, line 4: it says that it is of rank 3 of 3"
    cp "$samples/rank-1.json" "$jobs"
    edit 1 's/"offset_us":0/"offset_us":"0"/'
    refused "line 4: what it says of its clock is not complete"
}

@test "names that a terminal would obey are shown harmless" {
    edit 1 's/layer2.weight/a\\u001b[2Jb/'
    edit 0 's/layer2.weight/a\\u001b[2Jb/'
    edit 2 's/layer2.weight/a\\u001b[2Jb/;s/"host":"n2"/"host":"n\\u001b[2J"/'
    run "$hvdinfo" trace "$jobs"
    [ "$status" -eq 0 ]
    has 'allreduce "a\x1b[2Jb"'
    has 'n\x1b[2J'
    [[ $output != *$'\e'* ]]
}

@test "a folder without timelines, and none, are refused" {
    rm "$jobs"/*
    touch "$jobs/rank-01.json" "$jobs/rank-x.json" "$jobs/rank-.json" "$jobs/rank-1.json.bak"
    refused "$jobs holds no rank-*.json; expected the folder of a job's --hvd-timeline"
    run "$hvdinfo" trace "$jobs/none"
    [ "$status" -eq 1 ]
    has "the folder $jobs/none cannot be read: No such file"
    mkfifo "$jobs/rank-0.json"
    refused "rank-0.json is not a regular file"
}

@test "arguments are checked" {
    run "$hvdinfo" trace
    [ "$status" -eq 1 ]
    has "hvdinfo: trace: expected the folder of a job's --hvd-timeline"
    run "$hvdinfo" trace "$jobs" "$jobs"
    [ "$status" -eq 1 ]
    has "expected one folder"
    run "$hvdinfo" trace "$jobs" --merge
    [ "$status" -eq 1 ]
    has "hvdinfo: trace: --merge: expected one folder, and --output=FILE or --output=-"
}

@test "what is read is not written over" {
    run "$hvdinfo" trace "$jobs" "--output=$jobs/rank-1.json"
    [ "$status" -eq 1 ]
    has "--output=$jobs/rank-1.json is one of the timelines to be read"
    cmp "$jobs/rank-1.json" "$samples/rank-1.json"
}

@test "an output that cannot be written is an error" {
    run "$hvdinfo" trace "$jobs" "--output=$jobs/none/all.json"
    [ "$status" -eq 1 ]
    has "none/all.json cannot be written: No such file"
    [ -e /dev/full ] || skip "no /dev/full"
    run "$hvdinfo" trace "$jobs" --output=/dev/full
    [ "$status" -eq 1 ]
    has "/dev/full cannot be written: No space left"
    run bash -c '"$1" trace "$2" >/dev/full' - "$hvdinfo" "$jobs"
    [ "$status" -eq 1 ]
    has "No space left"
}
