/* placement.c: place this rank where no launcher did. */
#include "config.h"
#include "bootstrap/placement.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "topo/apply.h"
#include "topo/node_placement.h"

/* Has somebody else decided where this rank runs? */
static bool is_bound(const struct joined *joined, const struct hvd_config *config)
{
    return joined->crowding.apart && !config->bind.force;
}

/* Bind those threads that run where the process did: one that was bound apart stays. Returns how many. */
static int bind_threads_found(const struct bitset *found, const struct bitset *cpus)
{
    int count = 0;
    const struct dirent *entry;
    DIR *folder = opendir("/proc/self/task");
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const char *why;
        int64_t tid = 0;
        struct bitset now;
        if (parse_count(entry->d_name, &tid, &why) == 0 &&
            apply_read_cpus((pid_t)tid, &now, NULL) == HVD_OK && bitset_equal(&now, found))
            count += apply_cpus((pid_t)tid, cpus, NULL) == HVD_OK; /* it may end meanwhile */
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* Until none is left: they may start others meanwhile. */
static int bind_threads(const struct bitset *found, const struct bitset *cpus, struct hvd_error *err)
{
    int rc = apply_cpus(0, cpus, err);
    while (rc == HVD_OK && !bitset_equal(found, cpus) && bind_threads_found(found, cpus) > 0)
        continue;
    return rc;
}

static int write_variables(const struct plan_task *task, const struct hvd_config *config,
                           struct hvd_error *err)
{
    struct variable variables[APPLY_MAX];
    const struct applied applied = {.task = task, .who = "hvd", .gpu_visible = config->gpu_visible};
    int count = apply_variables(&applied, variables, err);
    for (int i = 0; i < count; i++)
        if (setenv(variables[i].name, variables[i].value, 1) < 0)
            return error_set_errno(err, "cannot set %s", variables[i].name);
    return count < 0 ? count : HVD_OK;
}

static void tell(const struct joined *joined, const struct plan *plan, const struct hvd_log *log)
{
    char line[1024];
    int local_rank = joined->shape.local_rank;
    plan_task_text(&plan->tasks[local_rank], joined->job.rank, line, sizeof(line));
    log_answer(log, "bind", "%s", line);
    if (local_rank == 0 && plan->note[0] != 0)
        log_answer(log, "bind", "%s", plan->note);
}

static void tell_kept(const struct joined *joined, const struct hvd_log *log)
{
    char list[128];
    struct bitset cpus;
    apply_read_cpus(0, &cpus, NULL);
    log_answer(log, "bind",
               "task %d: cpus %s: bound before hvd_init, and kept; --hvd-bind=force would place it",
               joined->job.rank, bitset_text(&cpus, list, sizeof(list)));
}

/* What the ranks of this node have together. Where none is bound that is what each has. */
static struct bitset granted_cpus(const struct joined *joined, const struct bitset *found)
{
    struct bitset cpus;
    _Static_assert(sizeof(cpus) <= sizeof(joined->crowding.all), "machines with more CPUs are refused");
    memcpy(&cpus, &joined->crowding.all, sizeof(cpus));
    return bitset_empty(&cpus) ? *found : cpus;
}

static int place_rank(const struct joined *joined, const struct hvd_config *config, const struct hvd_log *log,
                      struct hvd_error *err)
{
    struct bitset found;
    struct plan *plan = NULL;
    int rc = apply_read_cpus(0, &found, err);
    if (rc != HVD_OK)
        return rc;
    const struct bitset granted = granted_cpus(joined, &found);
    struct place place = {.task_count = joined->shape.local_size,
                          .cpus = &granted,
                          .bind = config->bind,
                          .rs = config->has_rs ? &config->rs : NULL,
                          .nics = config->bind.verbose ? config->nics : NULL};
    place.cores_only = !place_needs_devices(&place);
    rc = place_node(&place, &plan, err);
    if (rc != HVD_OK)
        return rc;
    const struct plan_task *task = &plan->tasks[joined->shape.local_rank];
    if (task->bound) {
        rc = bind_threads(&found, &task->cpus, err);
        if (!apply_mems_chosen())
            apply_mems(&task->mems);
    }
    if (rc == HVD_OK)
        rc = write_variables(task, config, err);
    if (rc == HVD_OK && config->bind.verbose)
        tell(joined, plan, log);
    plan_destroy(plan);
    return rc;
}

int placement_settle(const struct joined *joined, const struct hvd_config *config, const struct hvd_log *log,
                     struct hvd_error *err)
{
    struct hvd_error why = {""};
    bool asked = config_needs_plan(config);
    if (getenv(PLACED_VARIABLE) != NULL || (joined->shape.local_size == 1 && !asked))
        return HVD_OK;
    if (is_bound(joined, config)) {
        if (config->bind.verbose)
            tell_kept(joined, log);
        return HVD_OK;
    }
    int rc = place_rank(joined, config, log, &why);
    if (rc != HVD_OK && !asked) {
        log_write(log, LOG_INFO, "bind", "ranks are not placed: %s", why.text);
        return HVD_OK;
    }
    return rc == HVD_OK ? HVD_OK : error_set(err, rc, "%s", why.text);
}
