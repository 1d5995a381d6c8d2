#!/usr/bin/env bats
# wrong_node.bats: one node of four is not like the others: the step names it within seconds, and ends where its ranks
# need what is missing.
# shellcheck disable=SC2016,SC2030,SC2031 # what stands in single quotes is for the tasks; run sets output in the test that reads it

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    CLUSTER_NODES='n1 n2 n3 n4' cluster_start
}

setup() {
    cluster_or_skip
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    hello=$HVD_BUILD/examples/hello
    spoiled=()
}

teardown() {
    unspoil
    slurm_complaints
}

# spoil FILE TEXT: on n2, FILE holds TEXT; each node has its own mounts
spoil() {
    printf '%s\n' "$2" >"$CLUSTER/spoiled"
    node_in 5 n2 mount --bind "$CLUSTER/spoiled" "$1"
    spoiled+=("$1")
}

unspoil() {
    [ ${#spoiled[@]} -eq 0 ] || node_in 5 n2 umount "${spoiled[@]}"
    spoiled=()
    node_in 5 n2 ip rule del pref 10 2>/dev/null || true
    login_in 5 ip rule del pref 10 2>/dev/null || true
}

# ends_by_n2 ARGS: the step ends within seconds, and its last line names a rank of n2 and what is missing
ends_by_n2() {
    local began=$SECONDS
    run srun_in 30 "$@"
    echo "$output"
    [ "$status" -ne 0 ]
    [ $((SECONDS - began)) -le $((3 * PATIENCE)) ]
    [[ ${lines[-1]} == 'hvd: rank '?' (n2, pid '*") failed first: hvd's plug-in has not run on n2, as it has in srun"* ]]
    [ ${#lines[-1]} -le 300 ]
}

@test "a node whose plugstack.conf does not name the plug-in is named, on each MPI type, and the step ends" {
    local mpi
    spoil "$CLUSTER/plugstack.conf" '# nothing'
    for mpi in pmix pmi2 none; do
        login_in 10 srun --mpi=list 2>&1 | grep -qw $mpi || continue
        ends_by_n2 --hvd --mpi=$mpi -N4 -n8 "$hello"
    done
}

@test "so is one without the file, where plugstack.conf says optional" {
    spoil "$CLUSTER/plugstack.conf" "optional /nowhere/spank_hvd.so"
    ends_by_n2 --hvd-fusion=1M -N4 -n4 "$hello"
}

@test "the doctor names the node without the plug-in in each line, and the node that does not know the others" {
    spoil "$CLUSTER/plugstack.conf" '# nothing'
    run srun_in 30 --hvd -N4 -n4 "$HVD_BUILD/bin/hvdinfo" doctor
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" "n2: fail start: hvd's plug-in has not run on n2"
    expect_text "$output" 'n2: warn plug-in: '
    unspoil
    spoil /etc/hosts '127.0.0.1 n2'
    run srun_in 30 --hvd -N4 -n4 "$HVD_BUILD/bin/hvdinfo" doctor
    echo "$output"
    expect_text "$output" "warn names: the name of rank 0's node does not resolve here: MASTER_ADDR=10.77.0.1 stands for it (n2): add it to the DNS"
    expect_text "$output" 'ok   names: those of this node and of MASTER_ADDR resolve (n[1,3-4])'
    MASTER_ADDR=n1 run srun_in 30 --hvd --mpi=pmi2 -N4 -n4 "$HVD_BUILD/bin/hvdinfo" doctor
    echo "$output"
    [ "$status" -ne 0 ]
    grep -E '^fail names: MASTER_ADDR=n1 does not resolve here \(.*\) \(n2\): add it to the DNS' <<<"$output"
}

@test "the doctor names the node whose clock is wrong, and a job runs there all the same" {
    local clock=$HVD_BUILD/tests/run/.libs/clock_set.so
    local with_clock='[ "$SLURM_PROCID" != 2 ] || export CLOCK_AHEAD=3600 LD_PRELOAD="$0"; exec "$@"'
    run srun_in 30 --hvd -N4 -n4 sh -c "$with_clock" "$clock" "$HVD_BUILD/bin/hvdinfo" doctor
    echo "$output"
    grep -E '^warn clocks: n3 is 3600\.[0-9] s ahead of n[124]: run chrony or ntpd' <<<"$output"
    run srun_in 30 --hvd -N4 -n4 sh -c "$with_clock" "$clock" "$hello"
    echo "$output"
    [ "$status" -eq 0 ]
    expect_line "$output" 'rank 2 of 4: the sum is 10'
}

@test "ranks meet where plugstack.conf of one node names other ports than that of srun, or none" {
    local ports
    plugstack ports=25001-25003
    for ports in ports=26001-26003 ''; do
        spoil "$CLUSTER/plugstack.conf" "required $CLUSTER/spank_hvd.so $ports"
        run srun_in 30 --hvd --mpi=none -N4 -n4 sh -c 'echo "port $MASTER_PORT ${SLURM_HVD_PORTS-}"; exec "$0"' "$hello"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -cE '^port 2500[123] $' <<<"$output")" -eq 4 ]
        unspoil
    done
    plugstack
}

# meets_at ADDRESS COMMAND ARGS of srun: on n2 alone this takes the place of the name n1, and the ranks meet
meets_at() {
    local address=$1
    shift
    run "$@" --hvd --mpi=none -N4 -n4 sh -c 'echo "$SLURM_NODEID is told $MASTER_ADDR"; exec "$0"' "$hello"
    echo "$output"
    [ "$status" -eq 0 ]
    for line in '0 is told n1' "1 is told $address" '2 is told n1' '3 is told n1' 'rank 1 of 4: the sum is 10'; do
        expect_line "$output" "$line"
    done
}

@test "where a node does not know the name of rank 0's node, or takes it for its own, MASTER_ADDR is the address" {
    local hosts
    for hosts in '127.0.0.1 n2' '127.0.0.1 n2 n1'; do
        spoil /etc/hosts "$hosts"
        meets_at 10.77.0.1 srun_in 30
        meets_at 10.77.0.1 node_in 30 n1 env SLURM_CONF="$CLUSTER/slurm.conf" srun
        unspoil
    done
    meets_at n1 srun_in 30
}

@test "hvdinfo env gives all nodes the address of rank 0's node where one does not know its name" {
    slurm_has_pmix || skip 'this Slurm has no PMIx'
    plugstack_none
    spoil /etc/hosts '127.0.0.1 n2'
    run srun_in 30 --mpi=pmix -N4 -n4 sh -c 'eval "$("$0" env)" && echo "$RANK is told $MASTER_ADDR"' "$HVD_BUILD/bin/hvdinfo"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'is told 10.77.0.1$' <<<"$output")" -eq 4 ]
    unspoil
    run srun_in 30 --mpi=pmix -N4 -n4 sh -c 'eval "$("$0" env)" && echo "$RANK is told $MASTER_ADDR"' "$HVD_BUILD/bin/hvdinfo"
    echo "$output"
    [ "$(grep -c 'is told n1$' <<<"$output")" -eq 4 ]
}

@test "the user's own MASTER_ADDR stays; a node that a firewall keeps from srun has the name, and the step ends" {
    spoil /etc/hosts '127.0.0.1 n2'
    MASTER_ADDR=n3 run srun_in 30 --hvd --mpi=none -N2 -n2 sh -c 'echo "$SLURM_NODEID is told $MASTER_ADDR"'
    echo "$output"
    expect_line "$output" '1 is told n3'
    make_firewall
    login_in 5 ip rule add pref 11 ipproto tcp sport 1 blackhole && login_in 5 ip rule del pref 11 ||
        skip 'the kernel has no rules for ports'
    run srun_in 30 --prolog="$CLUSTER/firewall" --hvd --mpi=none --hvd-start-timeout=5s -N2 -n2 "$hello"
    echo "$output"
    [[ $status != 0 && $status != 124 ]]
    expect_text "$output" 'MASTER_ADDR=n1: '
}

@test "where the firewall is on rank 0's node, n2 asks srun for its address for two seconds, and no longer" {
    local began
    spoil /etc/hosts '127.0.0.1 n2'
    make_firewall 1
    login_in 5 ip rule add pref 11 ipproto tcp sport 1 blackhole && login_in 5 ip rule del pref 11 ||
        skip 'the kernel has no rules for ports'
    began=$SECONDS
    run srun_in 30 --prolog="$CLUSTER/firewall" --hvd --mpi=none -N2 -n2 sh -c 'echo "$SLURM_NODEID is told $MASTER_ADDR"'
    echo "$output"
    [ "$status" -eq 0 ]
    [ $((SECONDS - began)) -le $((3 * PATIENCE)) ]
    expect_line "$output" '1 is told n1'
    grep -E '^hvd: n1: srun at 10.77.0.254 port [0-9]+ is not reached from here: ' <<<"$output"
}

@test "a node whose firewall is between it and rank 0 says so within seconds, rank 0 who is missing, and the step ends" {
    node_in 5 n2 ip rule add pref 10 to 10.77.0.1 ipproto tcp dport 20000-31999 prohibit ||
        skip 'the kernel has no rules for ports'
    run srun_in 60 --hvd --mpi=none --hvd-start-timeout=20s -N4 -n4 "$hello"
    echo "$output"
    [ "$status" -ne 0 ]
    grep -E 'warning: wire-up: n2 has not reached rank 0 at n1 port [0-9]+ for 2 s: .*; see whether a firewall is between the two' <<<"$output"
    expect_text "$output" 'warning: wire-up: rank 0 still waits for 1 of 4 ranks: rank 1'
    [ "$(grep -c 'has not reached rank 0' <<<"$output")" -eq 1 ]
    grep -E '^rank 0 cannot be reached at n1 port [0-9]+: .*; see whether a firewall is between the two' <<<"$output"
    [[ ${lines[-1]} == 'hvd: rank 1 (n2, pid '*') failed first: '* ]]
}

@test "where another program listens at rank 0's address and says nothing, that is told, and the step ends" {
    local began listener
    command -v python3 >/dev/null || skip 'python3, which listens, is not installed'
    mkfifo "$CLUSTER/hold_listener"
    node_in 60 n3 python3 -c 'import socket, sys
listener = socket.create_server(("", 20999))
open(sys.argv[1], "w").close()
sys.stdin.read()' "$CLUSTER/listens" <"$CLUSTER/hold_listener" 3>&- &
    exec {listener}>"$CLUSTER/hold_listener"
    await 10 test -e "$CLUSTER/listens"
    began=$SECONDS
    MASTER_ADDR=n3 MASTER_PORT=20999 run srun_in 60 --hvd --mpi=none -N4 -n4 "$hello" {listener}>&-
    exec {listener}>&-
    echo "$output"
    [ "$status" -ne 0 ]
    [ $((SECONDS - began)) -le $((13 * PATIENCE)) ]
    grep -E 'warning: wire-up: n[234] has not reached rank 0 at n3 port 20999 for 2 s: what listens there does not answer as hvd' <<<"$output"
    grep -E '^what listens for rank 0 at n3 .* accepted the connection, but did not answer as hvd within 10 s; ' <<<"$output"
    [[ ${lines[-1]} == 'hvd: rank '[123]' (n'[234]', pid '*') failed first: '* ]]
}

# make_firewall [1]: srun runs this program before a step, with its port in the environment; then what it answers n2, or
# n1, is lost
make_firewall() {
    printf '#!/bin/sh\nip rule add pref 10 to 10.77.0.%s ipproto tcp sport "${SLURM_HVD_REPORT%%%%:*}" blackhole\n' "${1-2}" >"$CLUSTER/firewall"
    chmod 755 "$CLUSTER/firewall"
}

# without_driver ARGS of srun: an elastic step of four ranks, whose rank 1 is kept from the port of hvdepochs
without_driver() {
    run srun_in 60 "$@" --hvd-min=2 -N4 -n4 sh -c 'set -- $HVD_EPOCHS "$0"
        [ $SLURM_PROCID != 1 ] || ip rule add pref 10 to $1 ipproto tcp dport $2 prohibit || exit 77
        shift $(($# - 1)) && exec "$1"' "$hello"
    echo "$output"
    [[ $output != *'status 77'* ]] || skip 'the kernel has no rules for ports'
}

@test "a node that a firewall keeps from srun's port says so, the doctor too, and the step goes on" {
    make_firewall
    login_in 5 ip rule add pref 11 ipproto tcp sport 1 blackhole && login_in 5 ip rule del pref 11 ||
        skip 'the kernel has no rules for ports'
    run srun_in 30 --prolog="$CLUSTER/firewall" --hvd -N4 -n4 "$HVD_BUILD/bin/hvdinfo" doctor
    echo "$output"
    grep -E '^hvd: n2: srun at 10.77.0.254 port [0-9]+ is not reached from here: Connection timed out; the step goes on' <<<"$output"
    grep -E "^warn srun's port: srun at 10.77.0.254 port [0-9]+ is not reached from here: Connection timed out \(n2\): let SrunPortRange" <<<"$output"
    expect_text "$output" "ok   srun's port: reached (n[1,3-4])"
    expect_text "$output" 'ok   versions: '
}

@test "an elastic step goes on without a node that a firewall keeps from hvdepochs, which says so" {
    plugstack epochs="$HVD_BUILD/bin/hvdepochs"
    without_driver --hvd-start-timeout=5min
    grep -E 'warning: wire-up: n2 has not reached .*hvdepochs\) at 10.77.0.254 port [0-9]+ for 2 s: ' <<<"$output"
    grep -E 'hvdepochs\) cannot be reached at .*; see whether a firewall is between the two' <<<"$output"
    expect_line "$output" 'hvd: 3 of 4 ranks go on as epoch 1, without rank 1'
    expect_line "$output" 'rank 1 of 3: the sum is 6'
}

@test "an elastic step goes on without a node that reaches neither srun nor hvdepochs, and each is said" {
    plugstack epochs="$HVD_BUILD/bin/hvdepochs"
    make_firewall
    without_driver --prolog="$CLUSTER/firewall" --hvd-start-timeout=5s
    grep -E '^hvd: n2: srun at 10.77.0.254 port [0-9]+ is not reached from here: ' <<<"$output"
    grep -E 'warning: wire-up: n2 has not reached .*hvdepochs\) at 10.77.0.254 port [0-9]+ for 2 s: ' <<<"$output"
    expect_text "$output" 'rank 1 has not joined epoch 1 within --hvd-start-timeout; the others go on without it'
    expect_line "$output" 'hvd: 3 of 4 ranks go on as epoch 1, without rank 1'
    expect_line "$output" 'rank 1 of 3: the sum is 6'
}

@test "a node whose plug-in is of another version is named at once, and a task that fails there ends the step" {
    local began
    cp "$HVD_BUILD/tests/cluster/.libs/spank_hvd_other.so" "$CLUSTER/"
    spoil "$CLUSTER/plugstack.conf" "required $CLUSTER/spank_hvd_other.so"
    run srun_in 30 --hvd -N4 -n4 sh -c 'sleep 2; echo late'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "hvd: the plug-in of n2 has another version than srun's, which reads how a task ends there, but not why: install the same hvd on all nodes" ]
    run srun_in 30 --hvd --mpi=none -N4 -n8 "$hello"
    echo "$output"
    [ "$status" -eq 0 ]
    expect_line "$output" 'rank 2 of 8: the sum is 36'
    began=$SECONDS
    run srun_in 30 --hvd --mpi=none -N4 -n8 sh -c '[ $SLURM_PROCID = 2 ] && exit 2; exec "$0"' "$hello"
    echo "$output"
    [ "$status" -ne 0 ]
    [ $((SECONDS - began)) -le $((3 * PATIENCE)) ]
    [[ ${lines[-1]} == 'hvd: rank 2 (n2, pid '*') failed first: exited with status 2, '*' after start; 7 other ranks ended after it' ]]
}

@test "programs that know nothing of hvd: srun says after two seconds which node has not begun with the plug-in" {
    spoil "$CLUSTER/plugstack.conf" '# nothing'
    run srun_in 30 --hvd -N4 -n4 sleep 2.6
    echo "$output"
    [ "$status" -eq 0 ]
    expect_text "$output" 'hvd: n2 has not said that the plug-in is there, 2 s after 3 of 4 nodes have: '
}

@test "where all nodes have it nothing is said, however long the step is" {
    run srun_in 30 --hvd -N4 -n4 sleep 2.6
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = '' ]
}

@test "a rank that ends before hvd_init ends the step within a second, on each MPI type" {
    local mpi began
    for mpi in pmix pmi2 none; do
        login_in 10 srun --mpi=list 2>&1 | grep -qw $mpi || continue
        began=$SECONDS
        run srun_in 30 --hvd --mpi=$mpi -N4 -n8 sh -c '[ $SLURM_PROCID = 4 ] && exit 2; exec "$0"' "$hello"
        echo "$output"
        [ $((SECONDS - began)) -le $((2 * PATIENCE)) ]
        [[ ${lines[-1]} == 'hvd: rank 4 (n3, pid '*') failed first: exited with status 2, '*' after start; 7 other ranks ended after it' ]]
    done
}

@test "so does one that exits with 0 before hvd_init, once others have waited there for a second; one that is late does not" {
    local mpi began
    for mpi in pmix pmi2 none; do
        login_in 10 srun --mpi=list 2>&1 | grep -qw $mpi || continue
        began=$SECONDS
        run srun_in 30 --hvd --mpi=$mpi -N4 -n8 sh -c '[ $SLURM_PROCID = 4 ] && exit 0; exec "$0"' "$hello"
        echo "$output"
        [ "$status" -ne 0 ]
        [ $((SECONDS - began)) -le $((6 * PATIENCE)) ]
        [[ ${lines[-1]} == 'hvd: rank 4 (n3, pid '*') failed first: exited with status 0 before it joined the job, which rank '?' waited for, '* ]]
    done
    run srun_in 30 --hvd -N4 -n8 sh -c '[ $SLURM_PROCID != 4 ] || sleep 2.5; exec "$0"' "$hello"
    echo "$output"
    [ "$status" -eq 0 ]
    expect_no_text "$output" 'failed first'
}

@test "a rank that does not end at SIGTERM is killed two seconds later" {
    run srun_in 30 --hvd -N2 -n2 sh -c '[ $SLURM_PROCID = 1 ] && exit 2; trap "" TERM; echo ready; while :; do sleep 0.1; done'
    echo "$output"
    [ "$status" -eq 137 ]
    [[ ${lines[-1]} == 'hvd: rank 1 (n2, pid '*') failed first: exited with status 2, '* ]]
}

# keeps ARGS: the first rank fails, and the second one ends by itself
keeps() {
    run srun_in 30 "$@" -N2 -n2 sh -c '[ $SLURM_PROCID = 0 ] && exit 2; sleep 1; echo ended'
    echo "$output"
    [ "$status" -eq 2 ]
    expect_line "$output" ended
}

@test "the user's -K0, the site's kill=keep and a step that only steps=all makes one keep it" {
    keeps --hvd -K0
    keeps --hvd --kill-on-bad-exit=0
    SLURM_KILL_BAD_EXIT=0 keeps --hvd
    plugstack kill=keep
    keeps --hvd
    plugstack steps=all
    keeps
}

@test "the others have time to save when a rank fails that had joined" {
    run srun_in 30 --hvd -N2 -n2 "$HVD_BUILD/tests/run/crash" exit 3
    echo "$output"
    [ "$status" -eq 9 ] # of the rank that was told of the loss, and ended by itself
}
