#!/usr/bin/env bats
# messages.bats: messages between two ranks, with real ranks on this machine. The cases are in messages.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    need_hvdrun
}

# ranks N CASE [OPTIONS]: run the case on N ranks, which must exit with 0: over TCP, and in the end through shared memory
ranks() {
    good_case "$1" messages "${@:2}" --hvd-backends=tcp
    good_case "$1" messages "${@:2}"
}

@test "any size arrives whole, whether its receive comes early or late" {
    ranks 2 sizes
    ranks 3 sizes
}

@test "messages with one tag keep their order, and any rank may be heard" {
    ranks 2 order
    ranks 4 any
}

@test "a group never waits for itself, nor for a cycle of groups" {
    ranks 1 groups
    ranks 4 groups
    ranks 3 groups --hvd-encrypt=on
}

@test "thousands of messages may be under way, and be received in reverse" {
    ranks 2 many
}

@test "a message belongs to its process set, and ends with it" {
    ranks 3 sets
    grep -q 'send: rank is 0; expected a member of process set 1, by its rank in the job' <<<"$output"
    ranks 3 removed
    ranks 3 stray
}

@test "both ends name both where they disagree, and the connection goes on" {
    local text
    ranks 3 mismatch
    text='rank 0 (.*) sends int32\[100000\], rank 1 (.*) receives int32\[99999\]; give both the same'
    grep -q "large: send to rank 1 with tag 4: $text" <<<"$output"
    grep -q "larger: recv from rank 0 with tag 4: $text" <<<"$output"
    text='rank 0 (.*) sends int32\[10\], rank 1 (.*) receives float32\[10\]; give both the same'
    grep -q "small: recv from rank 0 with tag 4: $text" <<<"$output"
    grep -q "error: messages: send with tag 4: $text" <<<"$output"
    grep -q 'tag: send: tag is -1; expected 0 or more' <<<"$output"
    grep -q 'rank: send: rank is 3; expected 0 to 2' <<<"$output"
}

@test "inside a node messages go through shared memory, unless that is not among the backends" {
    good_case 2 messages order --hvd-log=debug
    grep -q 'debug: messages: those to rank 1 go through shared memory' <<<"$output"
    good_case 2 messages order --hvd-log=debug --hvd-backends=tcp
    run ! grep -q "go through shared memory" <<<"$output"
}

@test "a receive from a rank that dies ends, and names it" {
    local carrier
    for carrier in shm tcp; do
        run_case 3 messages lost --hvd-backends=$carrier
        grep -q 'lost: recv from rank 1 with tag 0: rank 1 (.*) was lost' <<<"$output"
    done
}

@test "what was sent arrives after its sender has called hvd_shutdown" {
    ranks 3 leave
    grep -q 'left: recv from rank 0 with tag 3: rank 0 (.*) has called hvd_shutdown' <<<"$output"
}

@test "a send ends once its receiver has called hvd_shutdown" {
    local carrier
    for carrier in tcp shm; do
        good_case 2 messages gone --hvd-backends=$carrier
        grep -q 'gone: send to rank 1 with tag 3: rank 1 (.*) has called hvd_shutdown' <<<"$output"
    done
}

@test "what waits is reported with both ranks, tag and size, and at last ends the job" {
    good_case 3 messages waits --hvd-stall-warn=1s
    grep -q 'warning: stall: in recv of int32\[100\] from rank 2 with tag 8 for [12][0-9.]* s: rank 0 (.*) waits for rank 2 (.*), which has not sent it' <<<"$output"
    grep -q 'warning: stall: in send of int32\[100000\] to rank 2 with tag 9 for [12][0-9.]* s: rank 1 (.*) waits for rank 2 (.*), which has not received it' <<<"$output"
    grep -q 'warning: stall: in recv of int32\[1\] from any rank with tag 10 for [12][0-9.]* s: rank 0 (.*) waits: no rank has sent it' <<<"$output"
    run_case 2 messages stopped --hvd-hang-abort=2s --hvd-dump-dir="$BATS_TEST_TMPDIR"
    grep -q 'stopped: .*hang-abort: in recv of int32\[100000\] from rank 1 with tag 5, which has not moved for [23][0-9.]* s: rank 0 (.*) waits for rank 1 (.*), and both have begun it' <<<"$output"
    cat "$BATS_TEST_TMPDIR"/hvd-flight.0.txt
    grep -q 'recv.*from rank 1 with tag 5' "$BATS_TEST_TMPDIR"/hvd-flight.0.txt
}

@test "nobody wakes while nothing comes, and a forked child disturbs nothing" {
    ranks 2 idle
    ranks 2 fork
}
