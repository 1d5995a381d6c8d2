/* stepd.c: what the plug-in does in slurmstepd, on the nodes of a step. */
#include "config.h"
#include "spank/stepd.h"

#include <slurm/slurm.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/launch_variables.h"
#include "base/secret.h"
#include "spank/options.h"
#include "spank/srun.h"
#include "spank/srun_epochs.h"
#include "spank/step.h"
#include "verdict/failure_report.h"
#include "spank/failure_reporter.h"
#include "spank/placement.h"
#include "spank/task_place.h"
#include "spank/task_traces.h"
#include "spank/user_child.h"

/* How long the end of a node's last task waits for what the tasks have written. */
static const struct timespec output_time = {.tv_nsec = 300000000};

/* In a step of several components, Slurm numbers the tasks of each component from 0. Only a task's
 * environment has its rank in the whole step, and how many there are. */
struct step_numbers {
    uint32_t first_rank; /* of this component's first task */
    uint32_t size;
    bool elastic;
};

/* Global, because SPANK passes no data of a plug-in from one call to the next. One process serves one
 * step. */
static struct {
    bool uses_hvd;                /* known from stepd_user_init on */
    struct step_numbers *numbers; /* shared with the tasks */
    uint32_t ended;               /* tasks of this node */
} step;

/* Put a list into the task's environment. An empty list is not put, so that the step is as it would be
 * without hvd. */
static int put_list(spank_t spank, const char *variable, const char *list, struct hvd_error *err)
{
    if (list[0] == 0)
        return HVD_OK;
    spank_err_t rc = spank_setenv(spank, variable, list, 1);
    if (rc != ESPANK_SUCCESS)
        return error_set(err, HVD_ERR_SYSTEM, "%s cannot be put into the environment of the task: %s",
                         variable, spank_strerror(rc));
    return HVD_OK;
}

/* Keep the numbers for stepd_task_exit, which runs in the parent. [rank] may be -1: unknown. */
static void record_numbers(spank_t spank, int rank)
{
    uint32_t task = 0;
    int size = 0;
    if (step.numbers == NULL || spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS)
        return;
    if (rank >= 0 && (uint32_t)rank >= task)
        step.numbers->first_rank = (uint32_t)rank - task;
    if (step_task_number(spank, "SLURM_STEP_NUM_TASKS", &size) && size > 0)
        step.numbers->size = (uint32_t)size;
}

void stepd_user_init(spank_t spank, const struct site *site)
{
    if (step_is_normal(spank))
        placement_prepare(spank, site);
    step.uses_hvd = options_use_hvd(site, step_environment(spank));
    if (!step.uses_hvd)
        return;
    void *shared =
        mmap(NULL, sizeof(*step.numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    step.numbers = shared == MAP_FAILED ? NULL : shared;
    if (step_is_normal(spank)) {
        failure_reporter_begin(spank);
        task_place_prepare(spank);
    }
}

/* Hand the secret that srun has drawn to the task, unless the user chose one. All tasks of a step decide
 * alike. */
static int put_secret(spank_t spank, struct hvd_error *err)
{
    char drawn[SECRET_TEXT_BYTES], present[SECRET_TEXT_BYTES];
    if (spank_getenv(spank, SRUN_SECRET_VARIABLE, drawn, sizeof(drawn)) != ESPANK_SUCCESS)
        return HVD_OK;
    spank_unsetenv(spank, SRUN_SECRET_VARIABLE);
    spank_err_t rc = spank_getenv(spank, SECRET_VARIABLE, present, sizeof(present));
    bool is_users = rc == ESPANK_NOSPACE || (rc == ESPANK_SUCCESS && !secret_is_drawn(present));
    return is_users ? HVD_OK : put_list(spank, SECRET_VARIABLE, drawn, err);
}

/* In an elastic step each task, also at its first start, asks the driver for its place. */
static int put_epochs(spank_t spank, const struct task_id *id, struct hvd_error *err)
{
    char port[12], host[INET6_ADDRSTRLEN], unused[8], text[128];
    spank_unsetenv(spank, EPOCHS_VARIABLE); /* of an outer step */
    if (spank_getenv(spank, EPOCHS_PORT_VARIABLE, port, sizeof(port)) != ESPANK_SUCCESS)
        return HVD_OK;
    spank_unsetenv(spank, EPOCHS_PORT_VARIABLE);
    if (spank_getenv(spank, "PMIX_NAMESPACE", unused, sizeof(unused)) != ESPANK_ENV_NOEXIST)
        return error_set(
            err, HVD_ERR_INVALID,
            "--hvd-min needs --mpi=none: under Slurm's PMIx a task that dies takes the step with it");
    if (spank_getenv(spank, "SLURM_SRUN_COMM_HOST", host, sizeof(host)) != ESPANK_SUCCESS || id->rank < 0 ||
        step.numbers == NULL || step.numbers->size == 0)
        return error_set(err, HVD_ERR_SYSTEM,
                         "--hvd-min: Slurm does not say where srun is, or which rank this is");
    step.numbers->elastic = true;
    snprintf(text, sizeof(text), "%s %s %d %u" EPOCHS_NEWCOMER, host, port, (int)id->rank,
             step.numbers->size);
    return put_list(spank, EPOCHS_VARIABLE, text, err);
}

/* Where srun listens is for slurmstepd, and for hvd_init in a step where all tasks must call it. */
static void hand_down_traces(spank_t spank)
{
    char listener[FAILURE_VARIABLE_BYTES];
    int index = -1;
    bool elastic = step.numbers != NULL && step.numbers->elastic;
    spank_unsetenv(spank, FAILURE_TASK_VARIABLE); /* of an outer step */
    if (spank_getenv(spank, FAILURE_REPORT_VARIABLE, listener, sizeof(listener)) == ESPANK_SUCCESS &&
        step.uses_hvd && !elastic)
        spank_setenv(spank, FAILURE_TASK_VARIABLE, listener, 1);
    spank_unsetenv(spank, FAILURE_REPORT_VARIABLE);
    if (spank_get_item(spank, S_TASK_ID, &index) == ESPANK_SUCCESS)
        task_traces_hand_down(spank, index);
}

/* Batch scripts and the shell of salloc get the options too: an mpirun or hvdrun there starts ranks on its
 * own node from its own environment, and these ranks must agree with those that it starts through steps. */
int stepd_task_init(spank_t spank, const struct site *site)
{
    struct hvd_error err = {""};
    char list[CONFIG_LIST_BYTES + 1] = "";
    char node[FAILURE_NODE_BYTES];
    if (step_id(spank) == SLURM_EXTERN_CONT)
        return 0;
    int rank = -1;
    step_task_number(spank, "SLURM_PROCID", &rank);
    const struct task_id id = {.node = failure_report_name_node(node), .rank = rank};
    record_numbers(spank, rank);
    int rc = options_list(list, &err);
    if (options_switched_off()) /* the job may have options */
        spank_unsetenv(spank, CONFIG_CLI_VARIABLE);
    if (rc == HVD_OK)
        rc = put_list(spank, CONFIG_CLI_VARIABLE, list, &err);
    if (rc == HVD_OK)
        rc = put_list(spank, CONFIG_SITE_VARIABLE, site->list, &err);
    if (rc == HVD_OK)
        rc = put_secret(spank, &err);
    if (rc == HVD_OK)
        rc = put_epochs(spank, &id, &err);
    if (rc == HVD_OK && step_is_normal(spank))
        rc = placement_apply(spank, &id, &err);
    hand_down_traces(spank);
    if (rc < 0 && err.text[0] != 0)
        slurm_error("hvd: %s", err.text);
    return rc < 0 ? -1 : 0;
}

/* Where any task of a step was killed, srun does not wait for output once it knows that the last one has
 * ended: what the ranks that were left have said at last would be missing. */
static void let_output_reach_srun(spank_t spank)
{
    uint32_t tasks = 0;
    if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) == ESPANK_SUCCESS && ++step.ended == tasks)
        nanosleep(&output_time, NULL);
}

void stepd_task_post_fork(spank_t spank)
{
    int index = 0;
    pid_t pid = 0;
    if (step.uses_hvd && spank_get_item(spank, S_TASK_ID, &index) == ESPANK_SUCCESS &&
        spank_get_item(spank, S_TASK_PID, &pid) == ESPANK_SUCCESS)
        failure_reporter_task_begins(index, pid);
}

void stepd_task_exit(spank_t spank)
{
    uint32_t task = 0;
    char node[FAILURE_NODE_BYTES];
    struct task_end end = {.node = failure_report_name_node(node)};
    user_child_reap();
    if (!step.uses_hvd || !step_is_normal(spank))
        return;
    if (spank_get_item(spank, S_TASK_EXIT_STATUS, &end.wait_status) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_TASK_ID, &end.index) != ESPANK_SUCCESS)
        return;
    struct step_numbers numbers = {.size = 0};
    if (step.numbers != NULL)
        numbers = *step.numbers;
    end.rank = (int)(numbers.first_rank + task);
    end.size = (int)numbers.size;
    failure_reporter_task_ended(spank, &end);
    if (numbers.elastic)
        let_output_reach_srun(spank);
}
