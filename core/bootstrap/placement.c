/* placement.c: places this rank if no launcher did. */
#include "config.h"
#include "bootstrap/placement.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/parse.h"
#include "topo/apply.h"
#include "topo/node_placement.h"

/* Has something other than hvd bound this rank? */
static bool is_bound(const struct bootstrap *bootstrap, const struct hvd_config *config)
{
    return bootstrap->oversubscription.apart && !config->bind.force;
}

/* Bind the threads that run on the CPUs on which the process ran; a thread that was bound separately is
 * left. Returns how many were bound. */
static int bind_matching_threads(const struct bitmap *found, const struct bitmap *cpus)
{
    int count = 0;
    const struct dirent *entry;
    DIR *folder = opendir("/proc/self/task");
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        int64_t tid = parse_count_or(entry->d_name, -1);
        struct bitmap now;
        if (tid >= 0 && apply_read_cpus((pid_t)tid, &now, NULL) == HVD_OK && bitmap_is_equal(&now, found))
            count += apply_cpus((pid_t)tid, cpus, NULL) == HVD_OK; /* the thread may have ended */
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* Repeat until no thread is left to bind, as threads may start others meanwhile. */
static int bind_threads(const struct bitmap *found, const struct bitmap *cpus, struct hvd_error *err)
{
    int rc = apply_cpus(0, cpus, err);
    while (rc == HVD_OK && !bitmap_is_equal(found, cpus) && bind_matching_threads(found, cpus) > 0)
        continue;
    return rc;
}

static int write_variables(const struct plan_task *task, const struct hvd_config *config,
                           struct hvd_error *err)
{
    struct env_variable *variables = calloc(APPLY_MAX, sizeof(*variables));
    const struct launched_task launched = {
        .task = task, .launcher = "hvd", .gpu_visible = config->gpu_visible};
    if (variables == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the variables of this rank's place");
    int count = apply_variables(&launched, variables, err);
    int rc = count < 0 ? count : HVD_OK;
    for (int i = 0; rc == HVD_OK && i < count; i++)
        if (setenv(variables[i].name, variables[i].value, 1) < 0)
            rc = error_set_errno(err, "cannot set %s", variables[i].name);
    free(variables);
    return rc;
}

static void log_placement(const struct bootstrap *bootstrap, const struct plan *plan,
                          const struct hvd_log *log)
{
    char line[1024];
    int local_rank = bootstrap->shape.local_rank;
    plan_task_text(&plan->tasks[local_rank], bootstrap->job.rank, line, sizeof(line));
    log_requested(log, "bind", "%s", line);
    if (local_rank == 0 && plan->note[0] != 0)
        log_requested(log, "bind", "%s", plan->note);
}

static void log_kept_binding(const struct bootstrap *bootstrap, const struct hvd_log *log)
{
    char list[128];
    struct bitmap cpus;
    apply_read_cpus(0, &cpus, NULL);
    log_requested(log, "bind",
                  "task %d: cpus %s: bound before hvd_init, and kept; --hvd-bind=force would place it",
                  bootstrap->job.rank, bitmap_text(&cpus, list, sizeof(list)));
}

/* The CPUs that the ranks of this node have together. If no rank is bound, these are the CPUs of each. */
static struct bitmap granted_cpus(const struct bootstrap *bootstrap, const struct bitmap *found)
{
    struct bitmap cpus;
    _Static_assert(sizeof(cpus) <= sizeof(bootstrap->oversubscription.all),
                   "machines with more CPUs are refused");
    memcpy(&cpus, &bootstrap->oversubscription.all, sizeof(cpus));
    return bitmap_is_empty(&cpus) ? *found : cpus;
}

static int place_rank(const struct bootstrap *bootstrap, const struct hvd_config *config,
                      const struct hvd_log *log, struct hvd_error *err)
{
    struct bitmap found;
    struct plan *plan = NULL;
    int rc = apply_read_cpus(0, &found, err);
    if (rc != HVD_OK)
        return rc;
    const struct bitmap granted = granted_cpus(bootstrap, &found);
    struct node_placement place = {.task_count = bootstrap->shape.local_size,
                                   .cpus = &granted,
                                   .bind = config->bind,
                                   .rs = config->rs.given ? &config->rs : NULL,
                                   .nics = config->bind.verbose ? config->nics : NULL};
    place.cores_only = !node_placement_needs_devices(&place);
    rc = node_placement_run(&place, &plan, err);
    if (rc != HVD_OK)
        return rc;
    const struct plan_task *task = &plan->tasks[bootstrap->shape.local_rank];
    if (task->bound) {
        rc = bind_threads(&found, &task->cpus, err);
        if (!apply_mems_are_set())
            apply_mems(&task->mems);
    }
    if (rc == HVD_OK)
        rc = write_variables(task, config, err);
    if (rc == HVD_OK && config->bind.verbose)
        log_placement(bootstrap, plan, log);
    plan_destroy(plan);
    return rc;
}

int placement_apply(const struct bootstrap *bootstrap, const struct hvd_config *config,
                    const struct hvd_log *log, struct hvd_error *err)
{
    struct hvd_error why = {""};
    bool required = config_requires_placement(config);
    if (getenv(PLACED_VARIABLE) != NULL || (bootstrap->shape.local_size == 1 && !required))
        return HVD_OK;
    if (is_bound(bootstrap, config)) {
        if (config->bind.verbose)
            log_kept_binding(bootstrap, log);
        return HVD_OK;
    }
    int rc = place_rank(bootstrap, config, log, &why);
    if (rc != HVD_OK && !required) {
        log_write(log, LOG_INFO, "bind", "ranks are not placed: %s", why.text);
        return HVD_OK;
    }
    return rc == HVD_OK ? HVD_OK : error_set(err, rc, "%s", why.text);
}
