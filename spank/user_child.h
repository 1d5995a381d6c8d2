/* user_child.h: a child of slurmstepd that is the user for good, and does one piece of work there. */
#ifndef SPANK_USER_CHILD_H
#define SPANK_USER_CHILD_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

/* The first of the descriptors that the child keeps: next to the standard ones, so that all higher ones can
 * be closed at once. */
#define USER_CHILD_FD   3
#define USER_CHILD_KEEP 4 /* that many at most */

/* The user that the child becomes. */
struct step_user {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* supplementary ones, which Slurm keeps */
    int group_count;
};

/* What the child does; its return value is the child's exit status. [failure]: the sentence of why the child
 * is not the user, so that it must do nothing but say so; NULL: it is the user. It must not call Slurm, nor
 * exit(), because other threads of slurmstepd may have held locks at the fork. It may allocate memory: glibc
 * keeps that safe across fork. */
typedef int user_child_f(void *arg, const struct hvd_error *failure);

struct user_child {
    struct step_user user;
    int keep[USER_CHILD_KEEP]; /* descriptors: the child has them as USER_CHILD_FD and the following ones */
    int keep_count;
    user_child_f *work;
    void *arg;
};

/* Whose step this is. */
int step_user_find(spank_t spank, struct step_user *user, struct hvd_error *err);

/* Fork the child. All its other descriptors are closed, what it prints is discarded, it has no signal handler
 * and blocks no signal, it dies with slurmstepd, and no debugger of the user's can look into it. Returns its
 * pid, or -1 with errno. */
pid_t user_child_fork(const struct user_child *user_child);

/* Wait until the child has ended by itself, at most until [deadline_us]. True with its exit status. Otherwise
 * it has been killed, and that is waited for at most a second: one that hangs in the kernel, in a driver for
 * example, is left behind, because root's daemon must not wait for it. */
bool user_child_wait(pid_t child, int64_t deadline_us, int *statusp);

/* Reap a child that was left behind, if it has ended. It does not wait. */
void user_child_reap(void);

#endif
