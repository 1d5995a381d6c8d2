#!/usr/bin/env bats
# cluster.bats: the test cluster itself: several can run side by side, and one that ends leaves nothing behind.
# shellcheck disable=SC2016

bats_require_minimum_version 1.5.0
load helpers

teardown() {
    slurm_complaints
    [ -z "${other-}" ] || "$CLUSTER_SH" stop "$other"
}

# Print what clusters could leave behind on the machine.
traces() {
    ip -o link | sed 's/@.*//; s/^[0-9]*: //' | sort
    ls /run/netns 2>/dev/null || true
    wc -l </proc/self/mounts
}

# Print the processes, as seen from outside, that belong to the cluster in the folder.
processes_of() {
    # shellcheck disable=SC2062 # files, not a pattern
    grep -laFf - /proc/[0-9]*/cmdline 2>/dev/null <<<"$1" || true
}

@test "three nodes with names and addresses of their own" {
    run srun_in 20 -N3 -n3 sh -c 'echo $(hostname) $SLURMD_NODENAME $(ip -o -4 addr show eth0 | grep -o "10[.0-9]*/24")'
    expect_line "$output" 'n1 n1 10.77.0.1/24'
    expect_line "$output" 'n2 n2 10.77.0.2/24'
    expect_line "$output" 'n3 n3 10.77.0.3/24'
}

@test "each node has a monotonic clock of its own" {
    unshare --time --monotonic 1 true 2>/dev/null || skip 'there are no time namespaces here'
    run srun_in 20 -N3 -n3 sh -c 'read -r seconds _ </proc/uptime; echo $((${seconds%.*} / 100000))'
    echo "$output"
    [ "$(sort -u <<<"$output" | wc -l)" -eq 3 ]
}

@test "nodes reach each other by name" {
    run srun_in 20 -N1 -w n1 timeout 5 getent ahostsv4 n3
    expect_text "$output" 10.77.0.3
    node_in 10 n3 hostname | grep -x n3
}

@test "a node gets one more interface, and reaches others by it" {
    plug n1 more0 more 10.79.0.1/24
    plug n2 more0 more 10.79.0.2/24
    run srun_in 20 -N1 -w n2 ip -o -4 addr show more0
    expect_text "$output" 10.79.0.2/24
    node_in 10 n1 bash -c 'exec 3<>/dev/tcp/10.79.0.2/6818' # slurmd listens on all of them
}

@test "another cluster stands beside it and its end leaves nothing" {
    before=$(traces)
    other=$(mktemp -d /tmp/hvd.XXXXXX)
    "$CLUSTER_SH" start "$other"
    "$CLUSTER_SH" plug "$other" n1 eth1 second 10.78.0.1/24
    run timeout 30 "$CLUSTER_SH" run "$other" timeout 20 srun -N3 -n3 hostname
    [ "$(sort <<<"$output" | xargs)" = 'n1 n2 n3' ]
    run srun_in 20 -N3 -n3 hostname
    [ "$(sort <<<"$output" | xargs)" = 'n1 n2 n3' ]
    timeout 30 "$CLUSTER_SH" run "$other" timeout 20 srun sh -c 'setsid sleep 600 >/dev/null 2>&1 &'
    "$CLUSTER_SH" stop "$other"
    [ ! -e "$other" ]
    [ -z "$(processes_of "$other")" ]
    [ "$(traces)" = "$before" ]
}

@test "a tied cluster ends with its starter, even a killed one" {
    before=$(traces)
    other=$(mktemp -d /tmp/hvd.XXXXXX)
    mkfifo "$other/hold"
    run bash -c '"$1" start -t "$2" <"$2/hold" & exec 7>"$2/hold"; wait $!
        "$1" plug "$2" n1 eth1 second 10.78.0.1/24; kill -9 $$' sh "$CLUSTER_SH" "$other"
    [ "$status" -eq 137 ]
    # the folder is removed last
    timeout 20 sh -c 'while [ -e "$1" ]; do sleep 0.05; done' sh "$other"
    [ -z "$(processes_of "$other")" ]
    [ "$(traces)" = "$before" ]
}

@test "a folder with too long a name is refused with a sentence" {
    run "$CLUSTER_SH" start "/tmp/$(printf 'x%.0s' {1..60})"
    [ "$status" -eq 1 ]
    expect_text "$output" 'at most 50'
}

@test "a second cluster in the same folder is refused with a sentence" {
    run "$CLUSTER_SH" start "$CLUSTER"
    [ "$status" -eq 1 ]
    expect_text "$output" 'a cluster is there already'
    srun_in 20 true
}
