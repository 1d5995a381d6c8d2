/* plugin.c: the functions that Slurm calls: find out in which process this is, and forward.
 *
 * The plug-in promises that the options given to srun, sbatch and salloc reach all ranks of a step, that
 * tasks are placed before their programs start, that the task that failed first is named, and that an error
 * in plugstack.conf never fails a job or drains a node. Its files are named for the process that they run in:
 * srun*.c in srun, stepd.c in slurmstepd and in the tasks that it forks. In sbatch and salloc this file does
 * all. placement.c, planner.c and first_host.c run in slurmstepd before it forks the tasks,
 * failure_reporter.c also after each has ended; planner_child.c and failure_child.c in children of it, which
 * user_child.c makes the user; and placement_task.c, task_network.c, task_place.c and task_traces.c in each
 * task. options.c, switch.c and site.c read what users and administrators set, step.c what Slurm tells of the
 * step. */
#include "config.h"

#pragma GCC visibility push(default)
#include <slurm/spank.h>
/* cppcheck-suppress unknownMacro */
SPANK_PLUGIN(hvd, 1)
#pragma GCC visibility pop

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "options/parse.h"
#include "spank/srun_epochs.h"
#include "spank/srun_verdict.h"
#include "spank/srun_watch.h"
#include "spank/task_network.h"
#include "spank/task_place.h"
#include "spank/options.h"
#include "spank/site.h"
#include "spank/srun.h"
#include "spank/srun_record.h"
#include "spank/step.h"
#include "spank/stepd.h"

/* Most steps have ended so long after a loss. */
#define EXPLAIN_US INT64_C(10000000)

/* Has the administrator switched hvd off, by a file? Decided once, when a process begins with its step: the
 * file may come and go. Global, because SPANK passes no data of a plug-in from one call to the next. */
static bool switched_off;

static const struct site no_site;

static void log_to_slurmd(const char *sentence)
{
    slurm_error("hvd: %s; it is ignored", sentence);
}

/* Users cannot change plugstack.conf, so srun shows these sentences only with -v. */
static void log_to_srun(const char *sentence)
{
    slurm_verbose("hvd: %s; it is ignored", sentence);
}

/* Before Slurm refuses it, or runs another command than was meant. */
static void tell_mistake(void)
{
    struct hvd_error mistake = {""};
    srun_find_mistake(&mistake);
    if (mistake.text[0] != 0)
        slurm_error("hvd: %s", mistake.text);
}

/* The nodes of the step choose one port, also where one's plugstack.conf differs from the others'. */
static void hand_down_ports(const struct site *site)
{
    char ports[SITE_PORTS_BYTES];
    unsetenv(SITE_PORTS_VARIABLE); /* of an outer step */
    if (site_describe_ports(site, ports))
        setenv(SITE_PORTS_VARIABLE, ports, 1);
}

/* Never fails: failing on a node would drain it, and failing in srun would end commands that do not use
 * hvd. */
int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    switch (spank_context()) {
    case S_CTX_LOCAL:
        options_register(spank);
        tell_mistake();
        site_read(&site, argc, argv, NULL);
        switched_off = site_is_off(&site);
        srun_hand_down_off(switched_off);
        if (!switched_off)
            srun_share_cpus();
        if (!switched_off && srun_uses_hvd(&site)) {
            srun_draw_secret();
            srun_watch_listen();
            hand_down_ports(&site);
            if (srun_is_elastic())
                srun_survive();
            else if (!site.keep_mpi)
                srun_prefer_pmix();
        }
        break;
    case S_CTX_ALLOCATOR:
        options_register(spank);
        tell_mistake();
        break;
    case S_CTX_REMOTE:
        options_register(spank);
        site_read(&site, argc, argv, log_to_slurmd);
        break;
    case S_CTX_SLURMD:
        site_read(&site, argc, argv, log_to_slurmd);
        break;
    case S_CTX_JOB_SCRIPT:
    case S_CTX_ERROR:
        break;
    }
    return 0;
}

/* Put the options that sbatch or salloc was given, and the site's, into its environment. salloc's command, or
 * its shell, may run here and not in a step, and begins with it. In a batch script slurmstepd sets the same.
 */
static void hand_down(const struct site *site)
{
    char list[CONFIG_LIST_BYTES + 1] = "";
    struct hvd_error err = {""};
    int rc = options_list(list, &err); /* fails only for values that were refused before */
    if (rc == HVD_OK && list[0] != 0)
        setenv(CONFIG_CLI_VARIABLE, list, 1);
    if (site->list[0] != 0)
        setenv(CONFIG_SITE_VARIABLE, site->list, 1);
}

/* Not to users whose steps use hvd only because the site says so. */
static void tell_switched_off(const struct site *site, bool user_asks)
{
    if (user_asks)
        slurm_info("hvd: the administrator has switched hvd off on this cluster (%s): its options and "
                   "variables have no effect",
                   site->off);
}

/* In sbatch and salloc, and below in srun: the first call for which -v is in force. */
int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[])
{
    struct site site;
    (void)spank;
    if (spank_context() != S_CTX_ALLOCATOR)
        return 0;
    site_read(&site, argc, argv, log_to_srun);
    if (site_is_off(&site))
        tell_switched_off(&site, options_use_hvd(&no_site, environ));
    else
        hand_down(&site);
    return 0;
}

/* An elastic step cannot do without. What a batch script was given is for its steps that are large enough. */
static int start_epochs(spank_t spank, const struct site *site)
{
    struct hvd_error err = {""};
    uint32_t tasks = 0;
    int fewest = 0, spares = 0;
    srun_counts_in_environment(&fewest, &spares);
    fewest = options_fewest() > 0 ? options_fewest() : fewest;
    spares = options_spares() > 0 ? options_spares() : spares;
    spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks);
    if (options_fewest() == 0 && (uint32_t)fewest + (uint32_t)spares > tasks) {
        slurm_verbose("hvd: a step of %u tasks is not elastic: the job has --hvd-min=%d and %d spares", tasks,
                      fewest, spares);
        return 0;
    }
    if (srun_epochs_has_started()) {
        slurm_error("hvd: --hvd-min: a step of several components cannot be elastic; start one component");
        return -1;
    }
    const char *program = site->epochs[0] != 0 ? site->epochs : PKGLIBEXECDIR "/hvdepochs";
    struct elastic_step step = {.slots = (int)tasks,
                                .fewest = fewest,
                                .spares = spares,
                                .program = program,
                                .reports = srun_watch_fd()};
    spank_get_item(spank, S_JOB_ID, &step.job);
    spank_get_item(spank, S_JOB_STEPID, &step.number);
    int rc = srun_epochs_start(&step, &err);
    if (rc != HVD_OK)
        slurm_error("hvd: %s", err.text);
    return rc == HVD_OK ? 0 : -1;
}

/* Slurm numbers the nodes of each component of a step from 0, so there none is missed. */
static void begin_watch(spank_t spank, const struct site *site)
{
    uint32_t nodes = 0;
    const char *size = getenv("SLURM_HET_SIZE");
    int64_t components = size == NULL ? 1 : parse_count_or(size, 1);
    struct watched_step step = {.explain_us = EXPLAIN_US,
                                .id.components = components <= STEP_COMPONENTS ? (int)components : 1,
                                .ends = !site->keep_kill && srun_may_end_early()};
    if (spank_get_item(spank, S_JOB_ID, &step.id.job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step.id.number) != ESPANK_SUCCESS)
        return;
    if (step.id.components == 1 && spank_get_item(spank, S_JOB_NNODES, &nodes) == ESPANK_SUCCESS &&
        nodes <= FAILURE_MAX_SIZE)
        step.node_count = (int)nodes;
    srun_watch_begin(&step);
}

int slurm_spank_local_user_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    if (spank_context() != S_CTX_LOCAL)
        return 0;
    site_read(&site, argc, argv, log_to_srun);
    if (switched_off)
        tell_switched_off(&site, srun_uses_hvd(&no_site));
    if (switched_off || !srun_uses_hvd(&site))
        return 0;
    if (site.record)
        srun_record(spank);
    if (srun_is_elastic())
        return start_epochs(spank, &site);
    begin_watch(spank, &site);
    if (options_spares() == 0)
        return 0;
    slurm_error("hvd: --hvd-spares=%d: only an elastic step has spares; give --hvd-min too",
                options_spares());
    return -1;
}

int slurm_spank_user_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    site_read(&site, argc, argv, NULL);
    switched_off =
        site_is_off(&site) || environment_value(step_environment(spank), SRUN_OFF_VARIABLE) != NULL;
    if (!switched_off)
        stepd_user_init(spank, &site);
    return 0;
}

/* Those of srun go before this node's. */
static void take_ports(spank_t spank, struct site *site)
{
    char ports[SITE_PORTS_BYTES];
    if (spank_getenv(spank, SITE_PORTS_VARIABLE, ports, sizeof(ports)) == ESPANK_SUCCESS)
        site_take_ports(site, ports);
    spank_unsetenv(spank, SITE_PORTS_VARIABLE);
}

int slurm_spank_task_init(spank_t spank, int argc, char *argv[])
{
    struct site site;
    if (spank_context() != S_CTX_REMOTE)
        return 0;
    if (switched_off) {
        spank_unsetenv(spank, SRUN_OFF_VARIABLE);
        return 0;
    }
    site_read(&site, argc, argv, NULL);
    take_ports(spank, &site);
    int rc = stepd_task_init(spank, &site);
    if (rc == 0) {
        task_network_init(spank, &site);
        task_place_init(spank, &site);
    }
    return rc;
}

int slurm_spank_task_post_fork(spank_t spank, int argc, char *argv[])
{
    (void)argc;
    (void)argv;
    if (spank_context() == S_CTX_REMOTE)
        stepd_task_post_fork(spank);
    return 0;
}

/* In srun: after its own messages about tasks that failed. */
int slurm_spank_exit(spank_t spank, int argc, char *argv[])
{
    (void)spank;
    (void)argc;
    (void)argv;
    if (spank_context() != S_CTX_LOCAL)
        return 0;
    int status = srun_epochs_end();
    if (status < 0) {
        srun_verdict_print();
        return 0;
    }
    /* srun would return the highest status of all tasks, including lost ones; it has nothing else left to do
     */
    fflush(NULL);
    _exit(status);
}

int slurm_spank_task_exit(spank_t spank, int argc, char *argv[])
{
    (void)argc;
    (void)argv;
    if (spank_context() == S_CTX_REMOTE)
        stepd_task_exit(spank);
    return 0;
}
