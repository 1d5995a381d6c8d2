#!/usr/bin/env bats
# domains.bats: jobs whose ranks are on several NUMA domains of a node, where the ranks of a domain combine large tensors
# first. The domains are simulated by domains.c.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    [ -x "$hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    domains=$HVD_BUILD/tests/run/.libs/domains.so
}

# on N EACH PROGRAM [ARG...]: run N ranks, with EACH of them on each domain
on() {
    run timeout -k 5 100 "$hvdrun" --no-prefix -n "$1" --hvd-log=debug env DOMAINS_EACH="$2" LD_PRELOAD="$domains" "${@:3}"
    [ "$status" -eq 0 ] || echo "$output"
    [ "$status" -eq 0 ]
}

# said N TEXT: N ranks have printed TEXT once
said() {
    [ "$(grep -c "$2\$" <<<"$output")" -eq "$1" ] || {
        echo "$output"
        return 1
    }
}

# random SEED N EACH [KIND]: check random operations against a reference, as property.bats does; some are large enough
random() {
    PROPERTY_LARGE=600000 on "$2" "$3" "$HVD_BUILD/tests/run/property" "$1" 60 "$2" "${@:4}"
}

@test "random operations of each kind are right by domains" {
    local kind
    for kind in allreduce broadcast allgather reducescatter; do
        random 32 8 4 "$kind"
        said 8 'process set 0: large batches cross between 2 NUMA domains once'
    done
}

@test "random operations of all kinds are right on three domains" {
    random 34 12 4
    said 12 'process set 0: large batches cross between 3 NUMA domains once'
}

@test "where a domain has too few of the ranks, large batches are as all others" {
    random 34 8 3
    said 8 'process set 0: large batches do not go by NUMA domains: some NUMA domain has too few of the ranks'
}

@test "who waits while tensors travel by domains sleeps" {
    on 8 4 "$HVD_BUILD/tests/run/waiting" stopped
    said 8 'process set 0: large batches cross between 2 NUMA domains once'
    took_ms=$(grep -x '[0-9]*' <<<"$output")
    echo "$took_ms ms"
    [ "$took_ms" -lt 100 ]
}

@test "the death of a rank wakes those who sleep while tensors travel by domains" {
    run timeout -k 5 30 "$hvdrun" --no-prefix -n 8 --grace=20s --hvd-log=debug --hvd-progress=block \
        env DOMAINS_EACH=4 LD_PRELOAD="$domains" "$HVD_BUILD/tests/run/waiting" killed
    [ "$status" -eq 137 ] || echo "$output"
    [ "$status" -eq 137 ]
    said 8 'process set 0: large batches cross between 2 NUMA domains once'
    has 'rank 0 was told'
    has 'rank 6 was told'
}
