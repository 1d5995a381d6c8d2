#!/usr/bin/env bats
# descriptors.bats: jobs under low limits of open descriptors.
# The inner shells expand their own variables:
# shellcheck disable=SC2016

setup() {
    load setup
    hvdrun=$HVD_BUILD/bin/hvdrun
    hello=$HVD_BUILD/examples/hello
    need_hvdrun
}

teardown() {
    end_started
}

@test "hvd_init raises a low soft limit to the hard one" {
    local pid words end=$((SECONDS + 30))
    cd "$BATS_TEST_TMPDIR" || return 1
    bash -c 'ulimit -Sn 40; ulimit -Hn 4000; exec "$@"' limited "$hvdrun" --no-prefix -n 2 \
        sh -c 'echo $$ >>pids; exec "$0" until go' "$HVD_BUILD/tests/run/plain_tensor" >out 2>&1 3>&- &
    started=$!
    until [ "$(grep -c runs out)" -eq 2 ]; do
        [ $SECONDS -lt $end ] || { cat out; return 1; }
        sleep 0.02
    done
    for pid in $(<pids); do
        read -r -a words < <(grep '^Max open files' "/proc/$pid/limits")
        [ "${words[*]:3:2}" = '4000 4000' ]
    done
    touch go
    wait "$started"
}

@test "ranks connect at a low soft limit" {
    run timeout 60 bash -c 'ulimit -Sn 16; exec "$@"' limited "$hvdrun" -n 6 --hvd-backends=tcp "$hello"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'the sum is 21' <<<"$output")" -eq 6 ]
}

@test "a rank keeps the user's soft limit until it calls hvd_init" {
    run timeout 60 bash -c 'ulimit -Sn 40; exec "$@"' limited "$hvdrun" --no-prefix -n 1 sh -c 'ulimit -Sn'
    [ "$output" = 40 ]
}

@test "where a hard limit is too low, its name and the number that would do are said" {
    local limit named=0
    for limit in 15 18 21; do
        run timeout 60 "$hvdrun" -n 4 --hvd-start-timeout=10s --hvd-backends=tcp \
            bash -c 'ulimit -n "$0"; exec "$@" 3>&-' "$limit" "$hello"
        [ "$status" -ne 0 ] || continue
        has "all $limit descriptors that this process may have are open; raise \`ulimit -n\` to at least"
        named=1
    done
    [ "$named" -eq 1 ]
}
