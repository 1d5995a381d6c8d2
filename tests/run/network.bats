#!/usr/bin/env bats
# network.bats: three nodes with several networks, some of which do not work: hvd_init finds one that works, or fails
# within seconds and prints a table. network.sh makes the nodes.
# Every test is a process of its own: shellcheck disable=SC2030,SC2031,SC2154

setup() {
    load setup
    nodes=$HVD_SOURCE/tests/run/network.sh
    program=$HVD_BUILD/tests/run/network
    local why
    why=$("$nodes" check)
    [ -z "$why" ] || skip "$why"
    export HVD_START_TIMEOUT=30s HVD_LOG=info
}

# in_case CASE [VARIABLE=VALUE ...]: run three ranks; sets status and output as run does
in_case() {
    local case=$1
    shift
    run timeout 60 "$nodes" run "$case" env "$@" "$program"
}

all_ranks_use() {
    local rank
    [ "$status" -eq 0 ] || {
        echo "$output"
        return 1
    }
    for rank in 0 1 2; do
        has "rank $rank NCCL_SOCKET_IFNAME==$1"
        has "rank $rank GLOO_SOCKET_IFNAME=$1"
        has "rank $rank UCX_NET_DEVICES=$1"
        has "rank $rank OMPI_MCA_btl_tcp_if_include=$1"
        has "rank $rank NCCL_IB_HCA=-"
        has "rank $rank sum 3"
    done
}

# connected_by PREFIX ...: all connections are from addresses that begin with one of the prefixes
connected_by() {
    local line prefix good
    while read -r line; do
        good=no
        for prefix in "$@"; do
            [[ ${line##* } != "$prefix"* && ${line##* } != "::ffff:$prefix"* ]] || good=yes
        done
        [ "$good" = yes ] || {
            echo "$line"
            return 1
        }
    done < <(grep ' connected from ' <<<"$output")
    has " connected from "
}

# three_fail SENTENCE TIMES: all three ranks fail, so many of them with this sentence, and the others say that rank 0 does
three_fail() {
    [ "$status" -ne 0 ]
    [ "$(grep -c "^rank 0 of 0: hvd_init: .*$1" <<<"$output") $(grep -c 'cannot start: rank 0 (n1) says why' <<<"$output")" = "$2 $((3 - $2))" ] || {
        echo "$output"
        return 1
    }
}

@test "both networks that all nodes share are used, and no other" {
    in_case plain
    all_ranks_use eth0,eth1
    connected_by 10.81.0. 10.82.0.
    has "10.81.0.0/24 joins the 3 nodes; eth0 here"
    [[ $output != *" is not used"* && $output != *"why not"* ]]
}

@test "a network through which nothing comes on one node is not used" {
    in_case silent
    all_ranks_use eth1
    connected_by 10.82.0.
    has "10.81.0.0/24 is not used, as it failed on "
}

@test "more nodes than tell each other directly find out in two rounds what failed on one of them" {
    NODES=18 in_case silent
    [ "$status" -eq 0 ]
    [ "$(grep -c ' NCCL_SOCKET_IFNAME==eth1$' <<<"$output")" -eq 18 ]
    [ "$(grep -c ' sum 18$' <<<"$output")" -eq 18 ]
    has "10.82.0.0/24 joins the 18 nodes; eth1 here"
    has "10.81.0.0/24 is not used, as it failed on "
}

@test "a network whose cable is out on one node is not tried" {
    in_case unplugged
    all_ranks_use eth1
    connected_by 10.82.0.
    [[ $output != *"is not used"* ]]
}

@test "a route that leads through another interface is found out" {
    in_case detour
    all_ranks_use eth1
    connected_by 10.82.0.
    has "10.81.0.0/24 is not used, as it failed on n1: n3 comes from 10.82.0.3 instead"
}

@test "IPv6 alone will do" {
    in_case ipv6
    all_ranks_use eth0
    connected_by fd00:81::
}

@test "nodes that share no subnet are joined by routers" {
    in_case routed
    all_ranks_use eth0
    connected_by 10.91.0. 10.92.0. 10.93.0.
}

@test "no network: every rank fails within seconds, and the table says why" {
    in_case apart HVD_START_TIMEOUT=1h
    three_fail 'no network joins the 3 nodes: 10.81.0.0/24 failed on n' 1
    [ "$(grep -c 'node *interface *address *why not' <<<"$output")" -eq 1 ]
    grep -Eq ' n3 +eth0 +10.81.0.3 +no way to 10.81.0.[12] of n[12]: ' <<<"$output"
    grep -Eq ' n3 +eth1 +10.82.0.3 +no way to 10.82.0.[12] of n[12]: ' <<<"$output"
    grep -Eq ' n1 +lan0 +192.168.122.1 +n2 has the same address' <<<"$output"
    grep -Eq ' n1 +pair0 +10.84.0.1 +n3 has nothing in 10.84.0.0/24' <<<"$output"
    grep -Eq ' n1 +dead0 +10.83.0.1 +its link is down' <<<"$output"
    grep -Eq ' n1 +docker0 +172.17.0.1 +leads to containers' <<<"$output"
}

@test "a node with other subnets is found out" {
    in_case elsewhere
    three_fail 'no network joins the 3 nodes: eth0, by routers, failed on n' 1
    grep -Eq ' n1 +pair0 +10.84.0.1 +n3 has nothing in 10.84.0.0/24' <<<"$output"
}

@test "--hvd-nics chooses by name and by subnet" {
    in_case plain HVD_NICS=eth1
    all_ranks_use eth1
    connected_by 10.82.0.
    in_case plain HVD_NICS=10.81.0.0/16
    all_ranks_use eth0
    connected_by 10.81.0.
}

@test "--hvd-nics saves the trial of what does not work" {
    in_case silent HVD_NICS=eth1
    all_ranks_use eth1
    [[ $output != *"is not used"* ]]
}

@test "--hvd-nics that one node does not have names the node" {
    in_case plain HVD_NICS=pair0
    three_fail '--hvd-nics=pair0: no network device of this node has that name' 2
    has "rank 2 (n3) cannot start: --hvd-nics=pair0"
}

@test "what the user has set stays, and what cannot work is told once" {
    in_case plain NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=pair0 UCX_NET_DEVICES=all
    [ "$status" -eq 0 ]
    for rank in 0 1 2; do
        has "rank $rank NCCL_SOCKET_IFNAME=eth0"
        has "rank $rank GLOO_SOCKET_IFNAME=pair0"
        has "rank $rank UCX_NET_DEVICES=all"
        has "rank $rank OMPI_MCA_btl_tcp_if_include=eth0,eth1"
    done
    [ "$(grep -c ' warning: ' <<<"$output")" -eq 1 ]
    has "GLOO_SOCKET_IFNAME=pair0 on n1 and 2 more leaves nothing that was proven to reach the other nodes"
}

@test "ranks of one node set nothing" {
    command -v "$HVD_BUILD/bin/hvdrun" >/dev/null || skip "built without hvdrun"
    run timeout 60 "$HVD_BUILD/bin/hvdrun" -n 2 --no-prefix "$program"
    [ "$status" -eq 0 ]
    has "rank 1 NCCL_SOCKET_IFNAME=-"
    has "rank 1 OMPI_MCA_btl_tcp_if_include=-"
}
