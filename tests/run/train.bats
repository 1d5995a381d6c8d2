#!/usr/bin/env bats
# The example as a user runs it: it learns, the result is the same for any number of ranks, and a lost rank ends it.

load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    train=$HVD_BUILD/examples/train
    data=$HVD_SOURCE/examples/digits.csv
    started=
}

teardown() {
    end_started
}

# train_on RANKS ARGUMENTS...: train on that many ranks, and put the last line of the output into $last
train_on() {
    local ranks=$1
    shift
    run timeout 60 "$hvdrun" --no-prefix -n "$ranks" --hvd-fusion=64M "$train" "$@"
    echo "$output"
    last=$(grep '^done ' <<<"$output")
}

# start_rank RANK: start one of two ranks, which wire up by the environment, without a launcher; output goes to out.RANK
start_rank() {
    : >"$BATS_TEST_TMPDIR/out.$1" # before the rank runs, so that it can be read at once
    RANK=$1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port HVD_JOB_KEY=0123456789abcdef0123456789abcdef \
        timeout 60 "$train" --data="$data" --epochs=100000 >"$BATS_TEST_TMPDIR/out.$1" 2>&1 3>&- &
    started="$started $!"
}

@test "one rank learns to read digits, and says so" {
    run timeout 60 "$train"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} =~ ^epoch\ 1\ loss=[0-9.]+\ accuracy=0\.[0-9]+$ ]]
    [[ ${lines[-1]} =~ ^done\ loss=0\.[0-9]+\ accuracy=(0\.[0-9]+)\ ranks=1\ seconds=[0-9.]+$ ]]
    awk -v accuracy="${BASH_REMATCH[1]}" 'BEGIN { exit !(accuracy >= 0.95) }'
}

@test "1, 2, 3 and 4 ranks end with the same loss" {
    need_hvdrun
    train_on 1
    [ "$status" -eq 0 ]
    alone=$last
    for ranks in 2 3 4; do
        train_on $ranks
        [ "$status" -eq 0 ]
        # one line for each epoch, from rank 0 only, and a last one
        [ "$(grep -c '^epoch ' <<<"$output")" -eq 30 ]
        [[ $last == *" ranks=$ranks "* ]]
        [ "${last%% ranks=*}" = "${alone%% ranks=*}" ]
    done
}

@test "more ranks than pictures in the last batch of an epoch" {
    need_hvdrun
    train_on 1 --epochs=2
    alone=$last
    head -n 83 "$data" >"$BATS_TEST_TMPDIR/few.csv" # 67 to learn from: batches of 64 and 3
    train_on 1 --epochs=2 --data="$BATS_TEST_TMPDIR/few.csv"
    [ "$status" -eq 0 ]
    few=$last
    [ "${few%% ranks=*}" != "${alone%% ranks=*}" ]
    train_on 5 --epochs=2 --data="$BATS_TEST_TMPDIR/few.csv"
    [ "$status" -eq 0 ]
    [ "${last%% ranks=*}" = "${few%% ranks=*}" ]
}

@test "--epochs is checked" {
    for value in "" 0 -1 1x 1000000001 99999999999999999999; do
        run timeout 20 "$train" --epochs="$value"
        echo "$output"
        [ "$status" -eq 2 ]
        [ "$output" = "train: --epochs=$value: expected a number from 1 to 1000000000" ]
    done
    run timeout 20 "$train" --epoch=3
    [ "$status" -eq 2 ]
    [[ $output == "train: --epoch=3: unknown; expected "* ]]
}

@test "bad data is named, with the line" {
    run timeout 20 "$train" --data="$BATS_TEST_TMPDIR/none"
    [ "$status" -eq 1 ]
    [ "$output" = "train: rank 0: $BATS_TEST_TMPDIR/none: No such file or directory" ]
    for bad in 17 -1 x ''; do
        { head -n 2 "$data"; sed -n "3s/^[0-9]*/$bad/p" "$data"; } >"$BATS_TEST_TMPDIR/bad.csv"
        run timeout 20 "$train" --data="$BATS_TEST_TMPDIR/bad.csv"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *"bad.csv: line 3 is not 64 numbers from 0 to 16 and a digit, "* ]]
    done
}

@test "a lost rank: the other leaves at once and names it" {
    port=$(free_port)
    start_rank 0
    start_rank 1
    read -r first second <<<"$started"
    # once training has begun, both ranks are in the job
    # shellcheck disable=SC2016 # sh expands it
    timeout 30 sh -c 'tail -n +1 -f "$1" --pid="$2" | grep -m 1 "^epoch 2 "' sh "$BATS_TEST_TMPDIR/out.0" "$first"
    # timeout(1) is the parent of rank 1
    kill -KILL "$(cat /proc/"$second"/task/"$second"/children)"
    begin=$SECONDS
    status=0
    wait "$first" || status=$?
    tail -n 3 "$BATS_TEST_TMPDIR/out.0"
    [ "$status" -eq 1 ]
    [ $((SECONDS - begin)) -le $((3 * PATIENCE)) ]
    tail -n 1 "$BATS_TEST_TMPDIR/out.0" | grep -E '^train: rank 0: [^:]+: .*rank 1'
}

# pid_of_rank K: the process of rank K of the job with this test's mark
pid_of_rank() {
    grep -lsxzF "TRAIN_TEST=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ | xargs grep -lsxzF "RANK=$1" | sed -n '1s/[^0-9]//gp'
}

@test "elastic: ranks are killed while it trains, rank 0 too, and it learns the same" {
    need_hvdrun
    train_on 1 --epochs=300
    alone=$last
    : >"$BATS_TEST_TMPDIR/out"
    TRAIN_TEST=$BATS_TEST_TMPDIR timeout 60 "$hvdrun" --no-prefix -n 4 --min-np=2 --max-restarts=3 "$train" --epochs=300 \
        >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    local job=$! epoch rank
    started=$job
    for rank in 2 0; do
        epoch=$((rank == 2 ? 5 : 30))
        # shellcheck disable=SC2016 # sh expands it
        timeout 30 sh -c 'tail -n +1 -f "$1" --pid="$2" | grep -q -m 1 "^epoch $3 "' sh "$BATS_TEST_TMPDIR/out" $job $epoch
        kill -KILL "$(pid_of_rank $rank)"
    done
    status=0
    wait $job || status=$?
    cat "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq 0 ]
    grep -q '^hvdrun: rank 2 killed by SIGKILL; 3 of 4 ranks go on; it starts again in 1 s, restart 1 of 3' "$BATS_TEST_TMPDIR/out"
    grep -q '^hvdrun: rank 0 killed by SIGKILL; ' "$BATS_TEST_TMPDIR/out"
    last=$(grep '^done ' "$BATS_TEST_TMPDIR/out")
    [ "${last%% ranks=*}" = "${alone%% ranks=*}" ]
}

@test "the program of the README is examples/hello.c, and runs" {
    # shellcheck disable=SC2016 # the marks of a code block
    sed -n '/^```c$/,/^```$/p' "$HVD_SOURCE/README.md" | sed '1d;$d' >"$BATS_TEST_TMPDIR/hello.c"
    diff <(sed 1d "$HVD_SOURCE/examples/hello.c") "$BATS_TEST_TMPDIR/hello.c"
    # the first program of the page
    diff <(sed -n '/^#include <stdio.h>$/,/^.Ed$/{/^.Ed$/q;p}' "$HVD_SOURCE/man/hvd.3" | sed 's/\\e/\\/') "$BATS_TEST_TMPDIR/hello.c"
    need_hvdrun
    run timeout 30 "$hvdrun" --no-prefix -n 3 "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(sort <<<"$output")" = "$(for rank in 0 1 2; do echo "rank $rank of 3: the sum is 6"; done)" ]
}

@test "env.sh lets a shell use the build tree, as the README says" {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    command -v pkg-config >/dev/null || skip 'pkg-config is missing'
    readelf -d "$HVD_BUILD/core/.libs/libhvd.so" | grep -qE 'NEEDED.*lib(a|t|ub)san' && skip 'a sanitizer would have to be linked too'
    cd "$BATS_TEST_TMPDIR"
    mkdir examples
    cp "$HVD_SOURCE/examples/hello.c" examples/
    sed -n '/\. \.\/env\.sh/,/hvdrun -n 4/p' "$HVD_SOURCE/README.md" | sed "s|\./env.sh|$HVD_BUILD/env.sh|" >commands
    [ "$(wc -l <commands)" -eq 3 ]
    run timeout 60 env -u HVD_MODULE_PATH bash -e commands
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 4: the sum is 10' <<<"$output")" -eq 4 ]
}
