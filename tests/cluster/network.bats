#!/usr/bin/env bats
# network.bats: nodes with several networks on a real cluster: the right ones are found and told to other libraries.
# shellcheck disable=SC2016
# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them
#
# Besides eth0 (10.77.0.0/24), which Slurm itself uses, each node has eth1 on a second network (10.78.0.0/24), a
# bridge docker0 with the same address on each, and dead0, whose link is down; pair0 (10.84.0.0/24) only n1 and n2.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    cluster_start
    [ -z "$CLUSTER_WHY_NOT" ] || return 0
    local node
    for node in 1 2 3; do
        plug "n$node" eth1 second "10.78.0.$node/24"
        node_in 10 "n$node" sh -ec '
            ip link add docker0 type bridge
            ip link add veth-docker0 type veth peer name vetx-docker0
            ip link set veth-docker0 master docker0 up
            ip link set vetx-docker0 up
            ip addr add 172.17.0.1/16 dev docker0
            ip link set docker0 up
            ip link add dead0 type veth peer name deadx
            ip addr add "10.83.0.$1/24" dev dead0
            ip link set dead0 up' sh "$node"
    done
    plug n1 pair0 pair 10.84.0.1/24
    plug n2 pair0 pair 10.84.0.2/24
    for node in 1 2 3; do
        await_links "n$node"
    done
}

teardown_file() {
    cluster_stop
}

setup() {
    cluster_or_skip
    slurm_has_pmix || skip 'Slurm has no mpi/pmix here'
    program=$HVD_BUILD/tests/run/network
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    changed=()
}

# Undo what the test did to the network, the last first.
teardown() {
    local i
    for ((i = ${#changed[@]} - 1; i >= 0; i--)); do
        eval "${changed[i]}"
    done
}

# The kernel says that a link is up some time after it is.
await_links() {
    node_in 20 "$1" bash -c '
        while ip -o link show | grep -E " (eth0|eth1|docker0)[@:]" | grep -qv "state UP"; do
            read -r -t 0.05 <> <(:) || true
        done'
}

# The node is taken off the second network; its link stays up.
cut_second() {
    login_in 10 ip link set "second-$1" nomaster
    changed+=("login_in 10 ip link set second-$1 master second")
}

rename_interface() {
    node_in 10 "$1" sh -ec 'ip link set "$1" down; ip link set "$1" name "$2"; ip link set "$2" up' sh "$2" "$3"
}

# Slurm's own network gets a name that hvd leaves aside, so that Slurm works and nothing else joins the nodes by it.
hide_first() {
    local node
    for node in n1 n2 n3; do
        rename_interface "$node" eth0 veth9
        changed+=("rename_interface $node veth9 eth0; await_links $node")
    done
}

# job ARGS of srun: six ranks on the three nodes
job() {
    run srun_in 60 -N3 -n6 "$@"
    echo "$output"
}

# all_ranks NAME=VALUE ...
all_ranks() {
    local rank word
    [ "$status" -eq 0 ]
    for rank in 0 1 2 3 4 5; do
        for word in "$@"; do
            expect_line "$output" "rank $rank $word"
        done
    done
}

all_ranks_use() {
    all_ranks "NCCL_SOCKET_IFNAME==$1" "GLOO_SOCKET_IFNAME=$1" "UCX_NET_DEVICES=$1" \
        "OMPI_MCA_btl_tcp_if_include=$1" NCCL_IB_HCA=- 'sum 6'
}

# connected_by PREFIX ...: what hvd has connected between nodes comes from addresses that begin so, on each node
connected_by() {
    local prefix others
    others=$(grep ' connected from ' <<<"$output" | sed 's/::ffff://' | grep -v ' from 127\.')
    for prefix in "$@"; do
        for node in 1 2 3; do
            expect_text "$others" " from $prefix.$node"
        done
        others=$(grep -v " from $prefix\.[123]\$" <<<"$others" || true)
    done
    [ -z "$others" ] || { echo "by other networks: $others" && return 1; }
}

# Every rank says why, nobody waits for long: all_fail SENTENCE
all_fail() {
    [ "$status" -ne 0 ]
    [ "$status" -ne 124 ]
    [ "$(grep -cE "^rank 0 of 0: hvd_init: .*$1" <<<"$output")" -eq 6 ]
}

@test "the networks that all nodes share are chosen, told and used" {
    job --hvd-log=info "$program"
    all_ranks_use eth0,eth1
    expect_text "$output" '10.77.0.0/24 joins the 3 nodes; eth0 here'
    expect_text "$output" '10.78.0.0/24 joins the 3 nodes; eth1 here'
    expect_no_text "$output" 'why not'
    job --hvd-tcp-streams=2 "$program"
    connected_by 10.77.0 10.78.0
}

@test "a network that one node is cut off from is not used" {
    cut_second n3
    job --hvd-log=info "$program"
    all_ranks_use eth0
    connected_by 10.77.0
    expect_text "$output" '10.78.0.0/24 is not used, as it failed on '
}

@test "--hvd-nics takes a name, a subnet and a default of the site" {
    job --hvd-nics=eth1 "$program"
    all_ranks_use eth1
    connected_by 10.78.0
    job --hvd-nics=10.77.0.0/16 "$program"
    all_ranks_use eth0
    connected_by 10.77.0
    plugstack nics=eth1
    job --mpi=pmix "$program"
    all_ranks_use eth1
    connected_by 10.78.0
}

@test "--hvd-nics that a node does not have, or whose link is down, ends the job and names what there is" {
    SECONDS=0
    job --hvd-nics=pair0 --hvd-start-timeout=20s "$program"
    [ "$status" -ne 0 ]
    expect_text "$output" 'n3) cannot start: --hvd-nics=pair0: no network device of this node is called so; there are '
    job --hvd-nics=dead0 --hvd-start-timeout=20s "$program"
    all_fail '--hvd-nics=dead0: the link of dead0 is down; there are .*eth0, eth1'
    job --hvd-nics=10.84.0.0/24 --hvd-start-timeout=20s "$program"
    [ "$status" -ne 0 ]
    expect_text "$output" 'no network device of this node is in that subnet'
    [ "$SECONDS" -lt 20 ]
}

@test "no network: every rank fails within the start timeout, and the table says why" {
    hide_first
    cut_second n3
    SECONDS=0
    job --hvd-start-timeout=30s "$program"
    [ "$SECONDS" -lt 30 ]
    all_fail 'no network joins the 3 nodes: 10.78.0.0/24 failed on n'
    [ "$(grep -c 'node *interface *address *why not' <<<"$output")" -eq 1 ]
    grep -Eq ' n3 +eth1 +10.78.0.3 +no way to 10.78.0.[12] of n[12]: ' <<<"$output"
    grep -Eq ' n1 +veth9 +10.77.0.1 +leads to containers' <<<"$output"
    grep -Eq ' n2 +docker0 +172.17.0.1 +leads to containers' <<<"$output"
    grep -Eq ' n1 +pair0 +10.84.0.1 +n3 has nothing in 10.84.0.0/24' <<<"$output"
    grep -Eq ' n3 +dead0 +10.83.0.3 +its link is down' <<<"$output"
}

@test "what the user has set stays" {
    NCCL_SOCKET_IFNAME=eth1 job --hvd-log=info "$program"
    all_ranks NCCL_SOCKET_IFNAME=eth1 GLOO_SOCKET_IFNAME=eth0,eth1 'sum 6'
}
