#!/bin/bash
# cluster.sh: a real Slurm cluster on this machine, in namespaces of its own.
#
#   cluster.sh check              print in one line why a cluster cannot start here; nothing if it can
#   cluster.sh start [-t] DIR     start it; DIR is made, holds all its files, and must have a short name
#   cluster.sh run DIR CMD ARGS   run a command on its login node, where srun, sbatch and salloc work
#   cluster.sh at DIR n1 CMD ARGS run a command on a node
#   cluster.sh plug DIR n1 INTERFACE NETWORK ADDRESS   give a node one more interface
#   cluster.sh stop DIR           end it and remove DIR
#
# The login node, which is the controller too, and the nodes n1, n2 and n3, or those in CLUSTER_NODES, are network, host
# name and mount namespaces on 10.77.0.0/24, where each has eth0; with CLUSTER_IPV6=yes in the environment, on fd77::/64 and without IPv4. Each node
# has a monotonic clock of its own, where the kernel has time namespaces. A NETWORK of plug is a bridge on the login node,
# made when it is first named; the login node's end of the cable to n1 is NETWORK-n1. All processes are in one process
# namespace: when its first process ends, the kernel ends all others, and the networks and mounts go with the last of
# them. Nothing is made outside DIR and the namespaces, so any number of clusters can run side by side. With -t the
# cluster also ends, and removes DIR, at the end of its standard input: with a pipe there it cannot outlive the process
# that started it.
set -eu

self=$(readlink -f "$0")
nodes=${CLUSTER_NODES:-n1 n2 n3}
start_seconds=40
if [ "${CLUSTER_IPV6:-no}" = yes ]; then
    network=fd77:: mask='/64 nodad' loopback=::1 # nodad: the address is there at once
else
    network=10.77.0. mask=/24 loopback=127.0.0.1
fi

say() {
    echo "cluster.sh: $*" >&2
    exit 1
}

check() {
    if [ "$(id -u)" -ne 0 ]; then
        echo 'it needs root, for namespaces'
        return
    fi
    for program in slurmctld slurmd munged mungekey srun ip unshare nsenter; do
        if ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
            echo "it needs $program"
            return
        fi
    done
    if ! unshare --mount --pid --net --uts --fork true 2>/dev/null; then
        echo 'this root may not make namespaces'
    fi
}

write_conf() {
    local dir=$1 node cpus plugin=task/affinity
    cpus=$(nproc)
    if [ "$cpus" -lt 2 ]; then
        cpus=2 plugin=task/none
    fi
    cat >"$dir/slurm.conf" <<END
ClusterName=hvdtest
SlurmctldHost=login(${network}254)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=$plugin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=5
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmdLogFile=$dir/log/slurmd-%n
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SchedulerParameters=sched_min_interval=10000,bf_interval=1
PlugStackConfig=$dir/plugstack.conf
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=FORCE:4
END
    if [ "$loopback" = ::1 ]; then
        echo 'CommunicationParameters=EnableIPv6,DisableIPv4' >>"$dir/slurm.conf"
    fi
    echo "$loopback localhost" >"$dir/hosts"
    echo "${network}254 login" >>"$dir/hosts"
    for node in $nodes; do
        echo "NodeName=$node NodeHostName=$node NodeAddr=$network${node#n} CPUs=$cpus RealMemory=1" \
            >>"$dir/slurm.conf"
        echo "$network${node#n} $node" >>"$dir/hosts"
        mkdir -p "$dir/spool/$node" "$dir/tmp/$node"
    done
    : >>"$dir/plugstack.conf"
    # from 23.11 on slurmd needs /sys/fs/cgroup unless it is told not to
    if ! slurmd -V | grep -qE ' (2[0-2]|23\.0)'; then
        echo 'CgroupPlugin=disabled' >"$dir/cgroup.conf"
    fi
}

# This process becomes the node: it is in the node's namespaces, which have no network yet.
node_main() {
    local dir=$1 node=$2
    hostname "$node"
    mount -t tmpfs -o mode=1777 none /dev/shm
    ip link set lo up
    echo $$ >"$dir/pid-$node"
    read -r _ <"$dir/wired-$node"
    exec slurmd -D -f "$dir/slurm.conf" -N "$node" </dev/null
}

start_node() {
    local dir=$1 node=$2 pid clocks=()
    mkfifo "$dir/wired-$node"
    rm -f "$dir/pid-$node"
    mkfifo "$dir/pid-$node"
    if unshare --time --monotonic 1 true 2>/dev/null; then
        clocks=(--time --monotonic "${node#n}00000" --boottime "${node#n}00000") # as if it had started by itself
    fi
    unshare --net --uts --mount "${clocks[@]}" -- "$self" node-main "$dir" "$node" </dev/null &
    read -r pid <"$dir/pid-$node"
    rm "$dir/pid-$node"
    echo "$pid" >"$dir/pid-$node"
    ip link add "port-$node" type veth peer name eth0 netns "$pid"
    ip link set "port-$node" master bridge up
    # shellcheck disable=SC2086 # two words
    nsenter --target "$pid" --net ip addr add dev eth0 "$network${node#n}"$mask
    nsenter --target "$pid" --net ip link set eth0 up
    echo >"$dir/wired-$node"
    rm "$dir/wired-$node"
}

# The first process of the cluster: the login node and controller. When it ends, the whole cluster ends.
login_main() {
    local dir=$1 tied=$2 node
    export SLURM_CONF=$dir/slurm.conf
    hostname login
    mount --bind "$dir/hosts" /etc/hosts
    mount -t tmpfs -o mode=1777 none /dev/shm
    mount -t tmpfs -o mode=755 none /run # libmunge looks for its daemon there; each cluster has its own
    mkdir /run/munge
    ip link set lo up
    ip link add bridge type bridge
    # shellcheck disable=SC2086 # two words
    ip addr add dev bridge "${network}254"$mask
    ip link set bridge up
    munged --foreground --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" \
        --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" --num-threads=4 </dev/null &
    slurmctld -D -f "$dir/slurm.conf" </dev/null &
    # a node that finds no controller tries again only seconds later
    until scontrol ping >/dev/null 2>&1; do
        sleep 0.02
    done
    for node in $nodes; do
        start_node "$dir" "$node"
    done
    echo up >"$dir/up"
    if [ "$tied" = yes ]; then
        cat >/dev/null
    else
        wait
    fi
}

# Outside the cluster: wait for its end and remove what it leaves. Readers of DIR/end get end of file after that.
supervise() {
    local dir=$1 tied=$2
    trap '' INT TERM HUP
    exec 4<&0
    unshare --mount --pid --net --uts --fork --kill-child --mount-proc -- "$self" login-main "$dir" "$tied" <&4 4<&- &
    exec 4<&- </dev/null 5<>"$dir/end"
    echo $! >"$dir/unshare.pid"
    wait $! || true
    rm -rf "$dir"
}

# Slurm has no call that waits for nodes. A queued srun does wait, but looks only every few seconds.
await_nodes() {
    while [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c '^idle$')" -lt "$(wc -w <<<"$nodes")" ]; do
        sleep 0.05
    done
}

start() {
    local tied=no dir why
    if [ "$1" = -t ]; then
        tied=yes
        shift
    fi
    dir=$1
    why=$("$self" check)
    [ -z "$why" ] || say "a cluster cannot start here: $why"
    [ "${#dir}" -le 50 ] || say "$dir: the name is ${#dir} bytes long; give one of at most 50, as sockets are made in it"
    mkdir -p "$dir"
    [ ! -e "$dir/slurm.conf" ] || say "$dir: a cluster is there already; stop it first"
    chmod 755 "$dir"
    mkdir -p "$dir/munge" "$dir/log" "$dir/state" "$dir/tmp/user"
    chmod 1777 "$dir/tmp/user"
    mungekey --create --keyfile="$dir/munge/key"
    write_conf "$dir"
    mkfifo "$dir/up" "$dir/end"
    trap '"$self" stop "$dir"; exit 1' INT TERM
    # background commands get no standard input from the shell, so pass it as fd 4; bats waits for processes that have fd 3
    exec 4<&0
    setsid "$self" supervise "$dir" "$tied" <&4 >"$dir/log/cluster" 2>&1 3>&- 4<&- &
    exec 4<&-
    if ! timeout "$start_seconds" cat "$dir/up" >/dev/null ||
        ! "$self" run "$dir" timeout "$start_seconds" "$self" await-nodes; then
        tail -n 20 "$dir"/log/* >&2 || true
        "$self" stop "$dir" || true
        say "the cluster was not ready within $start_seconds s; its logs are above"
    fi
}

# Print the pid, as seen from outside, of the login node's first process.
login_pid() {
    local outer
    outer=$(cat "$1/unshare.pid" 2>/dev/null) || say "$1: no cluster runs there"
    read -r -a children <"/proc/$outer/task/$outer/children" || true
    [ "${#children[@]}" -gt 0 ] || say "$1: the cluster has ended"
    echo "${children[0]}"
}

enter() {
    local dir=$1 pid=$2
    shift 2
    exec nsenter --target "$pid" --mount --net --uts --pid -- \
        env SLURM_CONF="$dir/slurm.conf" TMPDIR="$dir/tmp/user" "$@"
}

run() {
    local dir=$1 pid
    shift
    pid=$(login_pid "$dir")
    enter "$dir" "$pid" "$@"
}

at() {
    local dir=$1 node=$2 pid
    shift 2
    pid=$(login_pid "$dir")
    exec nsenter --target "$pid" --mount --pid -- "$self" at-inside "$dir" "$(cat "$dir/pid-$node")" "$@"
}

# plug DIR NODE INTERFACE NETWORK ADDRESS
plug() {
    local dir=$1 pid
    pid=$(login_pid "$dir")
    enter "$dir" "$pid" "$self" plug-inside "$@"
}

plug_inside() {
    local dir=$1 node=$2 interface=$3 network=$4 address=$5 pid
    pid=$(cat "$dir/pid-$node")
    if ! ip link show "$network" >/dev/null 2>&1; then
        ip link add "$network" type bridge
        ip link set "$network" up
    fi
    ip link add "$network-$node" type veth peer name "$interface" netns "$pid"
    ip link set "$network-$node" master "$network" up
    nsenter --target "$pid" --net ip addr add "$address" dev "$interface"
    nsenter --target "$pid" --net ip link set "$interface" up
}

at_inside() {
    local dir=$1 pid=$2
    shift 2
    exec nsenter --target "$pid" --mount --net --uts -- env SLURM_CONF="$dir/slurm.conf" "$@"
}

stop() {
    local dir=$1 pid
    pid=$(login_pid "$dir" 2>/dev/null) || true
    if [ -n "$pid" ]; then
        exec 5<"$dir/end"
        kill -9 "$pid" 2>/dev/null || true
        timeout 20 cat <&5 || say "$dir: the cluster does not end"
    fi
    rm -rf "$dir"
}

verb=${1-}
[ $# -eq 0 ] || shift
PATH=$PATH:/usr/sbin:/sbin
case $verb in
check | start | run | at | plug | stop | supervise) "$verb" "$@" ;;
login-main) login_main "$@" ;;
node-main) node_main "$@" ;;
at-inside) at_inside "$@" ;;
plug-inside) plug_inside "$@" ;;
await-nodes) await_nodes ;;
*) say "${verb:-nothing}: expected check, start, run, at, plug or stop" ;;
esac
