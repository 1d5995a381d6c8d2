#!/usr/bin/env bats
# hvd on kernels as old as Linux 4.18: system calls that came later answer ENOSYS.
# shellcheck disable=SC2016,SC2154 # what stands in single quotes is for the ranks to expand; hvdrun.bash sets variables

load hvdrun

NEWER=pidfd_send_signal,pidfd_open,clone3,close_range,openat2,pidfd_getfd,faccessat2,epoll_pwait2,futex_waitv,set_mempolicy_home_node

# old WORD...: run the words on an old kernel.
old() {
    status=0
    timeout -k 5 120 "$HVD_BUILD/tests/run/refuse" ENOSYS $NEWER -- "$@" >out 2>err || status=$?
    [ $status != 77 ] || skip "no filter of system calls can be installed here"
}

@test "descriptors are closed without close_range, also above the limit" {
    for name in base/test_kernel spank/test_placement; do
        [ -x "$HVD_BUILD/tests/unit/$name" ] || continue
        old "$HVD_BUILD/tests/unit/$name"
        [ $status = 0 ] || { cat out err; return 1; }
    done
}
