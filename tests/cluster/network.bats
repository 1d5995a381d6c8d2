#!/usr/bin/env bats
# network.bats: a real cluster whose nodes have several networks: hvd finds those that work, and sets them for other
# libraries.
# shellcheck disable=SC2016
# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them
#
# Besides eth0 (10.77.0.0/24), which Slurm itself uses, each node has eth1 on a second network (10.78.0.0/24), a
# bridge docker0 with the same address on each, and dead0, whose link is down; n1 and n2 also have pair0 (10.84.0.0/24).

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

setup() {
    cluster_or_skip
    slurm_has_pmix || skip 'Slurm has no mpi/pmix here'
    program=$HVD_BUILD/tests/run/network
    mpihello=$HVD_BUILD/tests/run/mpihello
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    changed=()
}

# Undo the test's changes to the network, in reverse order.
teardown() {
    local i
    slurm_complaints
    for ((i = ${#changed[@]} - 1; i >= 0; i--)); do
        eval "${changed[i]}"
    done
}

# Wait for the links: the kernel reports some time later that a link is up.
await_links() {
    node_in 20 "$1" bash -c '
        while ip -o link show | grep -E " (eth0|eth1|docker0)[@:]" | grep -qv "state UP"; do
            read -r -t 0.05 <> <(:) || true
        done'
}

# Disconnect the node from the second network; its link stays up.
cut_second() {
    login_in 10 ip link set "second-$1" nomaster
    changed+=("login_in 10 ip link set second-$1 master second")
}

rename_interface() {
    node_in 10 "$1" sh -ec 'ip link set "$1" down; ip link set "$1" name "$2"; ip link set "$2" up' sh "$2" "$3"
}

# Give Slurm's network a name that hvd ignores: Slurm still works, and hvd has no network there.
hide_first() {
    local node
    for node in n1 n2 n3; do
        rename_interface "$node" eth0 veth9
        changed+=("rename_interface $node veth9 eth0; await_links $node")
    done
}

# job ARGS of srun: run six ranks on the three nodes
job() {
    run srun_in 60 -N3 -n6 "$@"
    echo "$output"
}

# all_ranks NAME=VALUE ...: the job exited with 0, and every rank has printed each of these
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

# connected_by PREFIX ...: on each node, hvd's connections to other nodes are from addresses that begin with each of the
# prefixes, and from no others
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

# all_fail SENTENCE: every rank fails, rank 0 with this sentence, and none waits until the time limit
all_fail() {
    [ "$status" -ne 0 ]
    [ "$status" -ne 124 ]
    [ "$(grep -cE "^rank 0 of 0: hvd_init: .*$1" <<<"$output")" -eq 1 ]
    [ "$(grep -cE "^rank 0 of 0: hvd_init: .*the job cannot start: rank 0 \(n1\) says why" <<<"$output")" -eq 5 ]
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

@test "a network on which two nodes have the same address is not used, and they are named" {
    changed+=('node_in 5 n3 sh -c "ip addr flush dev eth1 && ip addr add 10.78.0.3/24 dev eth1"')
    node_in 5 n3 sh -c 'ip addr flush dev eth1 && ip addr add 10.78.0.2/24 dev eth1'
    job --hvd-log=warn "$program"
    all_ranks_use eth0
    expect_text "$output" 'warning: network: n2 and n3 have the same address 10.78.0.2: '
    job --hvd-nics=eth1 --hvd-start-timeout=20s "$program"
    all_fail 'no network joins the 3 nodes: n2 and n3 have the same address 10.78.0.2'
}

@test "--hvd-nics takes a name, a subnet and a default of the site" {
    job --hvd-nics=eth1 "$program"
    all_ranks_use eth1
    connected_by 10.78.0
    job --hvd-nics=10.77.0.0/16 --hvd-bind=auto,verbose "$program"
    all_ranks_use eth0
    connected_by 10.77.0
    [ "$(grep -c 'task [0-5]: .* NIC eth0, ' <<<"$output")" -eq 6 ]
    plugstack nics=eth1
    job --mpi=pmix "$program"
    all_ranks_use eth1
    connected_by 10.78.0
}

@test "--hvd-nics that a node does not have, or whose link is down, ends the job and names what there is" {
    SECONDS=0
    job --hvd-nics=pair0 --hvd-start-timeout=20s "$program"
    [ "$status" -ne 0 ]
    expect_text "$output" 'n3) cannot start: --hvd-nics=pair0: no network device of this node has that name; there are '
    job --hvd-nics=dead0 --hvd-start-timeout=20s "$program"
    all_fail '--hvd-nics=dead0: the link of dead0 is down; there are .*eth0, eth1'
    job --hvd-nics=10.84.0.0/24 --hvd-start-timeout=20s "$program"
    [ "$status" -ne 0 ]
    expect_text "$output" 'no network device of this node is in that subnet'
    [ "$SECONDS" -lt $((20 * PATIENCE)) ]
}

@test "no network: every rank fails within the start timeout, and the table says why" {
    hide_first
    cut_second n3
    SECONDS=0
    job --hvd-start-timeout=30s "$program"
    [ "$SECONDS" -lt $((30 * PATIENCE)) ]
    all_fail 'no network joins the 3 nodes: 10.78.0.0/24 failed on n'
    [ "$(grep -c 'node *interface *address *why not' <<<"$output")" -eq 1 ]
    grep -Eq ' n3 +eth1 +10.78.0.3 +no way to 10.78.0.[12] of n[12]: ' <<<"$output"
    grep -Eq ' n1 +veth9 +10.77.0.1 +leads to containers' <<<"$output"
    grep -Eq ' n2 +docker0 +172.17.0.1 +leads to containers' <<<"$output"
    grep -Eq ' n1 +pair0 +10.84.0.1 +n3 has nothing in 10.84.0.0/24' <<<"$output"
    grep -Eq ' n3 +dead0 +10.83.0.3 +its link is down' <<<"$output"
}

# A task that prints the variables that the plug-in sets, before hvd_init has tried the networks: the node's interface on
# the network by which srun reaches it.
say='echo "$SLURM_PROCID $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $UCX_NET_DEVICES $OMPI_MCA_btl_tcp_if_include $NCCL_IB_HCA.$HVD_NETWORK_SET"'

# all_say WORDS: each task has printed its rank and WORDS
all_say() {
    local rank
    [ "$status" -eq 0 ]
    for rank in 0 1 2 3 4 5; do
        expect_text "$output" "$rank $1"
    done
}

@test "a program that never calls hvd_init is told by which network srun reaches its node" {
    job --hvd-log=warn sh -c "$say"
    all_say '=eth0 eth0 eth0 eth0 .NCCL_SOCKET_IFNAME==eth0;UCX_NET_DEVICES=eth0;GLOO_SOCKET_IFNAME=eth0;'
    job --hvd-nics=10.78.0.0/24,eth0 sh -c "$say"
    all_say '=eth0,eth1 eth0,eth1 eth0,eth1 eth0,eth1 .NCCL'
    plugstack nics=eth1
    job --hvd-log=warn sh -c "$say"
    all_say '=eth1 eth1 eth1 eth1 .NCCL'
}

@test "the same from a batch script, where srun runs on one of the nodes" {
    printf '%s\n' '#!/bin/sh' '#SBATCH -N3 -n6 --hvd-log=warn' "srun sh -c '$say'" >"$CLUSTER/job.sh"
    sbatch_in 30 -o "$CLUSTER/job.out" "$CLUSTER/job.sh"
    output=$(cat "$CLUSTER/job.out")
    echo "$output"
    status=0
    all_say '=eth0 eth0 eth0 eth0 .NCCL'
}

@test "nothing is said of one node, without an option of hvd, or where it is not sure" {
    job sh -c "$say"
    all_say '    .'
    run srun_in 20 -N1 -n1 --hvd-log=warn sh -c "$say"
    expect_line "$output" '0     .'
    run salloc_in 20 -N3 -n6 --hvd-log=warn srun -N1 -n1 sh -c "$say"
    expect_line "$output" '0     .'
    hide_first
    job --hvd-log=warn sh -c "$say"
    all_say '    .'
}

@test "a step that a task of another starts is told anew" {
    run salloc_in 20 -N3 -n6 --hvd-nics=eth1 srun -N3 -n3 sh -c '[ "$SLURM_PROCID" -ne 0 ] ||
        exec srun --overlap -N2 -n2 --hvd-nics=eth0 sh -c "$1"' sh "$say"
    expect_text "$output" '0 =eth0 eth0 eth0 eth0 .NCCL_SOCKET_IFNAME==eth0'
    expect_text "$output" '1 =eth0 eth0 eth0 eth0 .NCCL_SOCKET_IFNAME==eth0'
    run salloc_in 20 -N3 -n6 --hvd-nics=eth1 srun -N3 -n3 sh -c '[ "$SLURM_PROCID" -ne 0 ] ||
        exec srun --overlap -N1 -n1 sh -c "$1"' sh "$say"
    expect_line "$output" '0     .'
}

@test "what the user has set stays in programs that never call hvd_init" {
    NCCL_SOCKET_IFNAME=eth1 OMPI_MCA_btl_tcp_if_exclude=docker0 job --hvd-log=warn sh -c "$say"
    all_say 'eth1 eth0 eth0  .UCX_NET_DEVICES=eth0;GLOO_SOCKET_IFNAME=eth0'
}

@test "--hvd-nics that a node does not have is told there, and the program runs" {
    job --hvd-nics=pair0 sh -c "$say"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'are told of no network on n3: --hvd-nics=pair0: no network device' <<<"$output")" -eq 1 ]
    expect_line "$output" '4     .'
    expect_text "$output" '1 =pair0 pair0 '
}

# mpi_runs ARGS of srun: one of four starts succeeds. Open MPI 4.1.4 by itself, with interfaces named by hand and without
# hvd, crashes here in about one of fifteen starts.
mpi_runs() {
    local try
    for try in 1 2 3 4; do
        echo "start $try"
        job "$@" "$mpihello"
        [ "$status" -ne 0 ] || [ "$(grep -c 'of 6, 2 on this node, sum 15$' <<<"$output")" -ne 6 ] || return 0
    done
    return 1
}

# The step that hangs comes last, so that no other one runs while Slurm kills it.
@test "a plain MPI program beside docker0: it runs with an option of hvd, and hangs or fails without" {
    [ -x "$mpihello" ] || skip 'configure found no Open MPI'
    mpi_runs --hvd-log=warn
    mpi_runs --hvd-nics=eth1
    run srun_in 5 -N3 -n6 --mpi=pmix "$mpihello"
    login_in 20 sh -c 'while [ -n "$(squeue -h)" ]; do sleep 0.05; done'
    [ "$status" -ne 0 ]
}

@test "hvd_init takes the plug-in's word back, and not what a script has set since" {
    job --hvd-log=info sh -c 'GLOO_SOCKET_IFNAME=eth1 exec "$1"' sh "$program"
    all_ranks GLOO_SOCKET_IFNAME=eth1 NCCL_SOCKET_IFNAME==eth0,eth1 OMPI_MCA_btl_tcp_if_include=eth0,eth1
    expect_no_text "$output" warning
}

@test "what the user has set stays" {
    NCCL_SOCKET_IFNAME=eth1 job --hvd-log=info "$program"
    all_ranks NCCL_SOCKET_IFNAME=eth1 GLOO_SOCKET_IFNAME=eth0,eth1 'sum 6'
}
