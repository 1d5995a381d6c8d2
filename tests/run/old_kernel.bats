#!/usr/bin/env bats
# hvd on kernels as old as Linux 4.18: system calls that came later answer ENOSYS.
# shellcheck disable=SC2016,SC2154 # what stands in single quotes is for the ranks to expand; hvdrun.bash sets variables

load setup
load hvdrun

NEWER=pidfd_send_signal,pidfd_open,clone3,close_range,openat2,pidfd_getfd,faccessat2,epoll_pwait2,futex_waitv,set_mempolicy_home_node

# old_unit NAME...: run these unit tests on an old kernel; some are built only where what they need was found.
old_unit() {
    local name ran=0
    for name in "$@"; do
        [ -x "$HVD_BUILD/tests/unit/$name" ] || continue
        old "$HVD_BUILD/tests/unit/$name"
        [ $status = 0 ] || { cat out err; return 1; }
        ran=$((ran + 1))
    done
    [ $ran -gt 0 ] || skip "none of these is built: $*"
}

# old WORD...: run the words on an old kernel.
old() {
    status=0
    timeout -k 5 120 "$HVD_BUILD/tests/run/refuse" ENOSYS $NEWER -- "$@" >out 2>err || status=$?
    [ $status != 77 ] || skip "no filter of system calls can be installed here"
}

@test "descriptors are closed without close_range, also above the limit" {
    old_unit base/test_kernel spank/test_placement
}

@test "ranks of a node share memory without pidfds, and pass the collectives" {
    old "$hvdrun" -n 4 --hvd-backends=shm "$HVD_BUILD/examples/hello"
    [ $status = 0 ] || { cat err; return 1; }
    [ "$(grep -c 'the sum is 10' out)" = 4 ]
    old "$hvdrun" -n 3 "$HVD_BUILD/tests/run/property" 7 60 3
    [ $status = 0 ] || { cat out err; return 1; }
}

@test "a rank that is killed is noticed in a second without pidfds" {
    for case in small large alltoall; do
        old "$hvdrun" --no-prefix -n 3 "$HVD_BUILD/tests/run/lost" $case
        for rank in 0 1; do
            grep -Eq "^rank $rank waited [01]\.[0-9] s: .*rank 2 \(.*\) was lost: its process ended" out ||
                { cat out err; return 1; }
        done
    done
    for how in adaptive block; do
        old "$hvdrun" --no-prefix -n 3 --grace=20s --hvd-progress=$how "$HVD_BUILD/tests/run/waiting" killed
        [ $status = 137 ] && [ "$(grep -c 'was told' out)" = 2 ] || { cat out err; return 1; }
    done
}

@test "unit tests of attaching and watching pass without pidfds" {
    old_unit node/test_attach node/test_process_watch
}
