/* planner_child.c: the child of slurmstepd that looks at the node and plans. */
#include "config.h"
#include "spank/planner_child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kernel.h"
#include "topo/apply.h"

/* The descriptor of the pipe: next to the standard ones, so that all higher ones can be closed at once. */
#define ANSWER_FD 3

/* ---- Become the user -------------------------------------------------------------------------------- */

static bool is_user(const struct planner_user *owner)
{
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;
    return getresuid(&real, &effective, &saved) == 0 &&
           getresgid(&real_group, &effective_group, &saved_group) == 0 && real == owner->uid &&
           effective == owner->uid && saved == owner->uid && real_group == owner->gid &&
           effective_group == owner->gid && saved_group == owner->gid;
}

/* Can this process become root again, as user or as group? It must not. */
static bool can_regain_root(const struct planner_user *owner)
{
    return (owner->uid != 0 && (seteuid(0) == 0 || setuid(0) == 0)) ||
           (owner->uid != 0 && owner->gid != 0 && (setegid(0) == 0 || setgid(0) == 0));
}

/* slurmstepd is root and acts as the user for a while. Groups are set first, because only root may set them.
 * The process is not dumpable, so that the user's debuggers cannot read what it inherited of root's memory.
 */
static int become_user(const struct planner_user *owner, struct hvd_error *err)
{
    bool is_root = geteuid() == 0 || seteuid(0) == 0;
    if (is_root && owner->uid != 0 &&
        (setgroups((size_t)owner->group_count, owner->groups) < 0 ||
         setresgid(owner->gid, owner->gid, owner->gid) < 0 ||
         setresuid(owner->uid, owner->uid, owner->uid) < 0))
        return error_set_errno(err, "the process that looks at this node cannot become user %u",
                               (unsigned)owner->uid);
    if ((owner->uid != 0 && !is_user(owner)) || can_regain_root(owner))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the process that looks at this node did not become user %u for good",
                         (unsigned)owner->uid);
    prctl(PR_SET_DUMPABLE, 0);
    return HVD_OK;
}

/* ---- Leave slurmstepd ------------------------------------------------------------------------------- */

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

/* Close all descriptors but the pipe, which becomes ANSWER_FD. What libraries print is discarded. */
static void close_files(int fd)
{
    if (fd != ANSWER_FD)
        dup2(fd, ANSWER_FD);
    kernel_close_range(ANSWER_FD + 1, ~0U);
    int null = open("/dev/null", O_RDWR);
    for (int standard = 0; standard < ANSWER_FD; standard++)
        dup2(null, standard);
    if (null > ANSWER_FD)
        close(null);
}

/* ---- Reply ------------------------------------------------------------------------------------------ */

static void write_all(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t written = write(fd, at, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            _exit(1);
        at += written;
        length -= (size_t)written;
    }
}

static void answer_failure(int fd, int status, const struct hvd_error *err)
{
    static struct planner_reply answer;
    answer.status = status;
    memcpy(answer.sentence, err->text, sizeof(answer.sentence));
    write_all(fd, &answer, sizeof(answer));
}

static void answer_plan(int fd, const struct plan *plan, const struct machine *machine, int visible_count)
{
    static struct planner_reply answer;
    answer.task_count = plan->task_count;
    memcpy(answer.note, plan->note, sizeof(answer.note));
    answer.cpus = plan->granted;
    answer.mems = machine->allowed_mems;
    answer.visible_count = visible_count;
    answer.gpu_count = machine->gpu_count;
    memcpy(answer.gpus, machine->gpus, sizeof(answer.gpus));
    write_all(fd, &answer, sizeof(answer));
    write_all(fd, plan->tasks, (size_t)plan->task_count * sizeof(plan->tasks[0]));
}

/* ---- Plan ------------------------------------------------------------------------------------------- */

/* Every user's steps read this file, so only root may have write access to it. */
static int check_topology(const char *path, struct hvd_error *err)
{
    struct stat status;
    if (path == NULL)
        return HVD_OK;
    if (stat(path, &status) < 0)
        return error_set_errno(err, "plugstack.conf: topology=%.200s cannot be read", path);
    if (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_set(
            err, HVD_ERR_INVALID,
            "plugstack.conf: topology=%.200s may be written by others than root; give it to root "
            "and take that right from the others",
            path);
    return HVD_OK;
}

bool planner_cpus_of_cores(const struct machine *machine, const char *cores, struct bitmap *cpus)
{
    struct bitmap indexes, found = {{0}};
    const char *why;
    if (cores == NULL || bitmap_parse(cores, &indexes, &why) < 0 || bitmap_is_empty(&indexes))
        return false;
    for (int i = bitmap_find_next(&indexes, 0); i >= 0; i = bitmap_find_next(&indexes, i + 1)) {
        if (i >= machine->core_count)
            return false;
        for (int k = 0; k < machine->cores[i].cpu_count; k++)
            bitmap_set(&found, machine->cores[i].cpus[k]);
    }
    *cpus = found;
    return true;
}

/* The CPUs of the step on this node, never more than this process may use. */
static int find_cpus(const struct machine *machine, const char *cores, struct bitmap *cpus,
                     struct hvd_error *err)
{
    struct bitmap mask;
    int rc = apply_read_cpus(0, &mask, err);
    if (rc != HVD_OK)
        return rc;
    if (!planner_cpus_of_cores(machine, cores, cpus))
        *cpus = mask;
    bitmap_and(cpus, &mask);
    return HVD_OK;
}

void planner_plan(const struct planner_request *request, int fd)
{
    struct node_placement placement = request->placement;
    struct machine *machine = NULL;
    struct plan *plan = NULL;
    struct hvd_error err = {""};
    struct bitmap cpus;
    struct visible_gpus visible;
    int rc = check_topology(placement.topology, &err);
    placement.cores_only = !node_placement_needs_devices(&placement);
    if (rc == HVD_OK)
        rc = node_placement_load_machine(&placement, &machine, &err);
    if (rc == HVD_OK)
        rc = find_cpus(machine, request->cores, &cpus, &err);
    if (rc == HVD_OK) {
        placement.cpus = &cpus;
        rc = node_placement_plan(&placement, machine, &plan, &err);
    }
    if (rc != HVD_OK) {
        answer_failure(fd, rc, &err);
        return;
    }
    node_placement_find_gpus(&placement, machine, &visible);
    answer_plan(fd, plan, machine, visible.count);
}

_Noreturn void planner_main(const struct planner_request *request, planner_work_f *work, int fd)
{
    struct hvd_error err = {""};
    int rc = become_user(&request->owner, &err);
    clear_signals();
    close_files(fd);
    if (rc != HVD_OK)
        answer_failure(ANSWER_FD, rc, &err);
    else
        work(request, ANSWER_FD);
    _exit(0);
}
