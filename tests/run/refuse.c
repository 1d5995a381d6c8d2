/* refuse.c: runs a program to which the kernel refuses some system calls, as an older kernel or a container
 * would: `refuse ENOSYS pidfd_open,close_range -- PROGRAM...`. Exits with 77 where such a filter cannot be
 * installed. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_CALLS 16
#define CANNOT    77

struct named_number {
    const char *name;
    long number;
};

/* Calls that came after Linux 4.18, by their numbers on all architectures, and some that containers refuse.
 */
static const struct named_number calls[] = {{"pidfd_send_signal", 424},
                                            {"pidfd_open", 434},
                                            {"clone3", 435},
                                            {"close_range", 436},
                                            {"openat2", 437},
                                            {"pidfd_getfd", 438},
                                            {"faccessat2", 439},
                                            {"epoll_pwait2", 441},
                                            {"futex_waitv", 449},
                                            {"set_mempolicy_home_node", 450},
                                            {"rseq", SYS_rseq},
                                            {"memfd_create", SYS_memfd_create},
                                            {"prctl", SYS_prctl},
                                            {"process_vm_readv", SYS_process_vm_readv},
                                            {"sendmsg", SYS_sendmsg},
                                            {"sendto", SYS_sendto},
                                            {"sched_setaffinity", SYS_sched_setaffinity},
                                            {"set_mempolicy", SYS_set_mempolicy}};

static const struct named_number errors[] = {{"ENOSYS", ENOSYS}, {"EPERM", EPERM}};

static long number_of(const char *name, const struct named_number *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].number;
    fprintf(stderr, "refuse: %s: not in the list of refuse.c\n", name);
    exit(2);
}

/* Answer [error] to each call in [list], and let all others pass. */
static int install(long error, char *list)
{
    struct sock_filter filter[2 * MAX_CALLS + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short used = 1;
    int count = 0;
    for (char *name = strtok(list, ","); name != NULL && count < MAX_CALLS; name = strtok(NULL, ",")) {
        long number = number_of(name, calls, sizeof(calls) / sizeof(calls[0]));
        filter[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
        filter[used++] = (struct sock_filter)BPF_STMT(
            BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA));
        count++;
    }
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = used, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    if (argc < 5 || strcmp(argv[3], "--") != 0) {
        fprintf(stderr, "usage: refuse ENOSYS|EPERM CALL[,CALL...] -- PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (install(number_of(argv[1], errors, sizeof(errors) / sizeof(errors[0])), argv[2]) < 0) {
        perror("refuse: cannot install a filter of system calls");
        return CANNOT;
    }
    execvp(argv[4], argv + 4);
    perror(argv[4]);
    return 127;
}
