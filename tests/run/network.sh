#!/bin/bash
# network.sh: makes nodes with several networks, as network namespaces, and runs one rank of a program on each.
#
#   network.sh check                print in one line why the nodes cannot start here; nothing if they can
#   network.sh run CASE CMD ARGS    run CMD as ranks 0 to 2 on n1, n2 and n3, or as $RANKS_PER_NODE ranks on each of
#                                   $NODES nodes; exits with the first status that is not 0
#   network.sh harm HARM CMD ARGS   the same, and do HARM to network A once CMD has made the file $HARM_READY
#
# Each node has: eth0 on network A (10.81.0.0/24), eth1 on network B (10.82.0.0/24), docker0 and lan0 with the same
# address on every node, dead0 which leads nowhere, and veth9 (10.99.0.0/24), by which the ranks wire up. Only n1 and n2
# have pair0. All processes are in one process namespace, and everything goes when its first process ends.
set -eu
PATH=$PATH:/usr/sbin:/sbin
self=$(readlink -f "$0")
nodes=$(seq 1 "${NODES:-3}")
pids=()

check() {
    if [ "$(id -u)" -ne 0 ]; then
        echo 'it needs root, for namespaces'
    elif ! command -v ip nsenter unshare >/dev/null; then
        echo 'it needs ip, nsenter and unshare'
    elif ! unshare --mount --pid --net --uts --fork --mount-proc -- "$self" try 2>/dev/null; then
        echo 'this root may not make namespaces and networks'
    fi
}

try() {
    ip link add bridge type bridge && ip link add one type veth peer name other
}

at() {
    local node=$1
    shift
    nsenter --target "${pids[node]}" --net --uts -- "$@"
}

# plug NODE INTERFACE BRIDGE ADDRESS: connect the node to the bridge; the bridge's end of the cable is BRIDGE-NODE
plug() {
    ip link add "$3-$1" type veth peer name "$2" netns "${pids[$1]}"
    ip link set "$3-$1" master "$3" up
    at "$1" ip addr add "$4" dev "$2"
    at "$1" ip link set "$2" up
}

# Make a bridge inside the node, with one cable that leads nowhere, so that its link is up.
own_bridge() {
    at "$1" ip link add "$2" type bridge
    at "$1" ip link add "veth-$2" type veth peer name "vetx-$2"
    at "$1" ip link set "veth-$2" master "$2" up
    at "$1" ip link set "vetx-$2" up
    at "$1" ip addr add "$3" dev "$2"
    at "$1" ip link set "$2" up
}

wire() {
    local node=$1
    at "$node" ip link set lo up
    at "$node" hostname "n$node"
    plug "$node" veth9 M "10.99.0.$node/24"
    plug "$node" eth0 A "10.81.0.$node/24"
    plug "$node" eth1 B "10.82.0.$node/24"
    own_bridge "$node" docker0 172.17.0.1/16
    own_bridge "$node" lan0 192.168.122.1/24
    at "$node" ip link add dead0 type veth peer name deadx
    at "$node" ip addr add "10.83.0.$node/24" dev dead0
    at "$node" ip link set dead0 up
    if [ "$node" -lt 3 ]; then
        plug "$node" pair0 P "10.84.0.$node/24"
    fi
}

# Wait for the links: the kernel reports some time later that a link is up.
await_links() {
    local tries=200
    while at "$1" ip -o link show | grep -E ' (eth0|eth1|lan0|docker0)[@:]' | grep -qv 'state UP'; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "network.sh: the links of n$1 do not come up" >&2 && exit 1; }
        read -r -t 0.05 <> <(:) || true
    done
}

apply() {
    case $1 in
    plain) ;;
    silent) ip link set A-3 nomaster ;; # the link of n3 is up, and nothing comes through
    unplugged) ip link set A-3 down ;;
    detour) at 3 ip route add 10.81.0.1/32 dev eth1 src 10.82.0.3 ;;
    apart)
        ip link set A-3 nomaster
        ip link set B-3 nomaster
        ;;
    elsewhere) # n3 has other subnets than n1 and n2
        at 3 ip addr flush dev eth1
        at 3 ip addr flush dev eth0
        at 3 ip addr add 10.91.0.3/24 dev eth0
        ;;
    routed) # one subnet on each node, and a router between them
        local node
        ip addr add 10.81.0.254/24 dev A
        for node in 1 2 3; do
            at "$node" ip link set eth1 down
            at "$node" ip link set lan0 down
            at "$node" ip addr flush dev eth0
            at "$node" ip addr add "10.9$node.0.$node/24" dev eth0
            ip addr add "10.9$node.0.254/24" dev A
            at "$node" ip route add default via "10.9$node.0.254"
        done
        at 1 ip link set pair0 down
        at 2 ip link set pair0 down
        echo 1 >/proc/sys/net/ipv4/ip_forward
        ;;
    ipv6)
        local node
        for node in 1 2 3; do
            at "$node" ip addr flush dev eth0
            at "$node" ip addr flush dev eth1
            at "$node" ip -6 addr add "fd00:81::$node/64" dev eth0 nodad
        done
        ;;
    *) echo "network.sh: there is no case $1" >&2 && exit 1 ;;
    esac
}

# lose_way FROM TO: what FROM sends to TO on network A is lost, as the frames go to an interface that nobody has
lose_way() {
    at "$1" ip neigh replace "10.81.0.$2" lladdr 02:99:99:99:99:99 dev eth0 nud permanent
}

harm() {
    local tries=600
    until [ -e "$HARM_READY" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "network.sh: $HARM_READY was not made" >&2 && exit 1; }
        read -r -t 0.05 <> <(:) || true
    done
    case $1 in
    cut) lose_way 2 3 && lose_way 3 2 ;; # ranks 1 and 2, which are no neighbours in the control tree
    one-way) lose_way 2 3 ;;
    unplugged) ip link set A-3 down ;;
    gap) # as long as HARM_GAP says
        ip link set A-3 nomaster
        read -r -t "$HARM_GAP" <> <(:) || true
        ip link set A-3 master A
        ;;
    *) echo "network.sh: there is no harm $1" >&2 && exit 1 ;;
    esac
}

main() {
    local verb=$1 case=$2 bridge node rank rc=0 ranks=() per_node=${RANKS_PER_NODE:-1}
    shift 2
    for bridge in M A B P; do
        ip link add "$bridge" type bridge
        ip link set "$bridge" up
    done
    for node in $nodes; do
        exec 9< <(exec unshare --net --uts sh -c 'echo $$; exec sleep 1000')
        read -r 'pids[node]' <&9
        wire "$node"
    done
    for node in $nodes; do
        await_links "$node"
    done
    [ "$verb" = harm ] || apply "$case"
    for node in $nodes; do
        for ((rank = (node - 1) * per_node; rank < node * per_node; rank++)); do
            RANK=$rank WORLD_SIZE=$((${NODES:-3} * per_node)) MASTER_ADDR=10.99.0.1 MASTER_PORT=29517 \
                HVD_JOB_KEY=0123456789abcdef at "$node" "$@" &
            ranks+=($!)
        done
    done
    [ "$verb" = run ] || harm "$case"
    for pid in "${ranks[@]}"; do
        wait "$pid" || rc=$?
    done
    exit "$rc"
}

verb=${1-}
[ $# -eq 0 ] || shift
case $verb in
check | try | main) "$verb" "$@" ;;
run | harm) exec unshare --mount --pid --net --uts --fork --kill-child --mount-proc -- "$self" main "$verb" "$@" ;;
*) echo "network.sh: ${verb:-nothing}: expected check, run or harm" >&2 && exit 1 ;;
esac
