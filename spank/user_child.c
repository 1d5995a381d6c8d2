/* user_child.c: a child of slurmstepd that is the user for good, and does one piece of work there. */
#include "config.h"
#include "spank/user_child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "base/process_signal.h"

#define KILL_LIMIT_US INT64_C(1000000)
#define LOOK_AGAIN_MS 2

int step_user_find(spank_t spank, struct step_user *user, struct hvd_error *err)
{
    gid_t *groups = NULL;
    if (spank_get_item(spank, S_JOB_UID, &user->uid) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_GID, &user->gid) != ESPANK_SUCCESS)
        return error_set(err, HVD_ERR_SYSTEM, "Slurm does not tell whose step this is");
    if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &user->group_count) != ESPANK_SUCCESS ||
        groups == NULL)
        user->group_count = 0;
    user->groups = groups;
    return HVD_OK;
}

/* ---- In the child: become the user ------------------------------------------------------------------ */

static bool is_user(const struct step_user *user)
{
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;
    return getresuid(&real, &effective, &saved) == 0 &&
           getresgid(&real_group, &effective_group, &saved_group) == 0 && real == user->uid &&
           effective == user->uid && saved == user->uid && real_group == user->gid &&
           effective_group == user->gid && saved_group == user->gid;
}

/* Can this process become root again, as user or as group? It must not. */
static bool can_regain_root(const struct step_user *user)
{
    return (user->uid != 0 && (seteuid(0) == 0 || setuid(0) == 0)) ||
           (user->uid != 0 && user->gid != 0 && (setegid(0) == 0 || setgid(0) == 0));
}

/* slurmstepd is root and acts as the user for a while. Groups are set first, because only root may set them.
 * The process is not dumpable, so that the user's debuggers cannot read what it inherited of root's memory.
 */
static int become_user(const struct step_user *user, struct hvd_error *err)
{
    bool is_root = geteuid() == 0 || seteuid(0) == 0;
    if (is_root && user->uid != 0 &&
        (setgroups((size_t)user->group_count, user->groups) < 0 ||
         setresgid(user->gid, user->gid, user->gid) < 0 || setresuid(user->uid, user->uid, user->uid) < 0))
        return error_set_errno(err, "the process that looks at this node cannot become user %u",
                               (unsigned)user->uid);
    if ((user->uid != 0 && !is_user(user)) || can_regain_root(user))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the process that looks at this node did not become user %u for good",
                         (unsigned)user->uid);
    prctl(PR_SET_DUMPABLE, 0);
    return HVD_OK;
}

/* ---- In the child: leave slurmstepd ----------------------------------------------------------------- */

/* The child must neither run slurmstepd's signal handlers nor outlive it. Called with all signals blocked. */
static void clear_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Give the descriptors to keep the numbers that the child expects, and close all others. They are moved up
 * first, because one may have the number that another one gets. What libraries print is discarded. False if
 * descriptors ran out: those of slurmstepd are then still open. */
static bool close_files(const int *keep, int count)
{
    int moved[USER_CHILD_KEEP];
    for (int i = 0; i < count; i++) {
        moved[i] = fcntl(keep[i], F_DUPFD, USER_CHILD_FD + USER_CHILD_KEEP);
        if (moved[i] < 0)
            return false;
    }
    for (int i = 0; i < count; i++)
        if (dup2(moved[i], USER_CHILD_FD + i) < 0)
            return false;
    kernel_close_range((unsigned)(USER_CHILD_FD + count), ~0U);
    int null = open("/dev/null", O_RDWR);
    for (int standard = 0; standard < USER_CHILD_FD; standard++)
        dup2(null, standard);
    if (null >= USER_CHILD_FD + count)
        close(null);
    return true;
}

_Noreturn static void child_main(const struct user_child *user_child)
{
    struct hvd_error err = {""};
    int rc = become_user(&user_child->user, &err);
    clear_signals();
    if (!close_files(user_child->keep, user_child->keep_count))
        _exit(EXIT_FAILURE); /* without an answer */
    _exit(user_child->work(user_child->arg, rc == HVD_OK ? NULL : &err));
}

/* ---- In slurmstepd ---------------------------------------------------------------------------------- */

/* With all signals blocked, so that the child never runs a signal handler of slurmstepd. */
pid_t user_child_fork(const struct user_child *user_child)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        child_main(user_child);
    int saved_errno = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return child;
}

/* A child that had not ended a second after SIGKILL; 0: there is none. */
static pid_t left_behind;

/* Reap the child if it ends until [deadline_us]: its pid, 0 if it still runs, -1 if it cannot be reaped. */
static pid_t reap_until(pid_t child, int64_t deadline_us, int *statusp)
{
    pid_t reaped = waitpid(child, statusp, WNOHANG);
    while ((reaped == 0 && clock_us() < deadline_us) || (reaped < 0 && errno == EINTR)) {
        poll(NULL, 0, LOOK_AGAIN_MS);
        reaped = waitpid(child, statusp, WNOHANG);
    }
    return reaped;
}

bool user_child_wait(pid_t child, int64_t deadline_us, int *statusp)
{
    int status = 0;
    pid_t reaped = reap_until(child, deadline_us, &status);
    if (reaped == 0) {
        process_signal(child, SIGKILL);
        if (reap_until(child, clock_us() + KILL_LIMIT_US, &status) == 0)
            left_behind = child;
        return false;
    }
    if (reaped < 0 || !WIFEXITED(status))
        return false;
    *statusp = WEXITSTATUS(status);
    return true;
}

void user_child_reap(void)
{
    if (left_behind != 0 && waitpid(left_behind, NULL, WNOHANG) != 0)
        left_behind = 0;
}
