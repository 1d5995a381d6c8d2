#!/usr/bin/env bats
# ipv6.bats: a cluster without IPv4.
# shellcheck disable=SC2016,SC2030,SC2031 # what stands in single quotes is for the tasks; run sets output in the test that reads it

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    CLUSTER_IPV6=yes cluster_start
}

setup() {
    cluster_or_skip
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    hello=$HVD_BUILD/examples/hello
    start_slowly
}

# says_hello COMMAND ARGS: three ranks add up their numbers
says_hello() {
    run "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    expect_text "$output" 'rank 2 of 3: the sum is 6'
}

@test "ranks meet on each MPI type, encrypted, elastic, over MPI, and by agents" {
    local mpi
    run node_in 5 n1 ip -4 addr show dev eth0
    [ "$output" = '' ]
    for mpi in pmix pmi2 none; do
        login_in 10 srun --mpi=list 2>&1 | grep -qw $mpi || continue
        says_hello srun_in 60 --hvd-encrypt --mpi=$mpi -N3 -n3 "$hello"
    done
    plugstack epochs="$HVD_BUILD/bin/hvdepochs"
    says_hello srun_in 60 --hvd-min=2 -N3 -n3 "$hello"
    says_hello salloc_in 60 -N3 -n3 "$HVD_BUILD/bin/hvdrun" --no-prefix --launcher=agents --min-np=2 -n 3 "$hello"
    ! slurm_has_pmix || says_hello srun_in 60 --hvd-backends=mpi -N3 -n3 "$hello"
}

@test "srun hears which rank failed first, and the doctor finds that nodes reach srun" {
    run srun_in 60 --hvd --mpi=none -N3 -n3 "$HVD_BUILD/tests/run/crash" exit 3
    echo "$output"
    [[ ${lines[-1]} == 'hvd: rank 1 (n2, pid '*') failed first: exited with status 3, '* ]]
    run srun_in 60 --hvd --mpi=none -N3 -n3 "$HVD_BUILD/bin/hvdinfo" doctor
    echo "$output"
    expect_text "$output" "ok   srun's port: reached"
    expect_text "$output" 'ok   names: those of this node and of MASTER_ADDR resolve'
}

@test "a node that does not know the name of rank 0's node finds it by its address" {
    echo '::1 n2' >"$CLUSTER/hosts-n2"
    node_in 5 n2 mount --bind "$CLUSTER/hosts-n2" /etc/hosts
    run srun_in 60 --hvd --mpi=none -N3 -n3 sh -c 'echo "$SLURM_NODEID is told $MASTER_ADDR"; exec "$0"' "$hello"
    node_in 5 n2 umount /etc/hosts
    echo "$output"
    [ "$status" -eq 0 ]
    expect_line "$output" '1 is told fd77::1'
    expect_line "$output" '2 is told n1'
    expect_line "$output" 'rank 1 of 3: the sum is 6'
}
