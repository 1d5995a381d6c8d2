/* planner_child.c: the child of slurmstepd that looks at the node and plans. */
#include "config.h"
#include "spank/planner_child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "topo/apply.h"

/* ---- Reply ------------------------------------------------------------------------------------------ */

static void write_or_exit(int fd, const void *bytes, size_t length)
{
    if (!descriptors_write(fd, bytes, length))
        _exit(1);
}

static void answer_failure(int fd, int status, const struct hvd_error *err)
{
    static struct planner_reply answer;
    answer.status = status;
    memcpy(answer.sentence, err->text, sizeof(answer.sentence));
    write_or_exit(fd, &answer, sizeof(answer));
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
    write_or_exit(fd, &answer, sizeof(answer));
    write_or_exit(fd, plan->tasks, (size_t)plan->task_count * sizeof(plan->tasks[0]));
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

int planner_main(void *arg, const struct hvd_error *failure)
{
    const struct planner_task *task = arg;
    if (failure != NULL)
        answer_failure(USER_CHILD_FD, HVD_ERR_SYSTEM, failure);
    else
        task->work(task->request, USER_CHILD_FD);
    return 0;
}
