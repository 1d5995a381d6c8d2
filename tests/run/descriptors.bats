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

@test "a low soft limit is raised, and the programs that ranks start inherit that" {
    run timeout 60 bash -c 'ulimit -Sn 40; exec "$@"' limited "$hvdrun" -n 6 --hvd-backends=tcp "$hello"
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
