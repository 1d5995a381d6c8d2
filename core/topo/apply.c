/* apply.c: apply a placement to a task: bind its CPUs and memory, and set its variables. */
#include "config.h"
#include "topo/apply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "topo/plan/plan.h"

/* From linux/mempolicy.h, which not every system installs. */
#define POLICY_DEFAULT        0
#define POLICY_PREFERRED      1
#define POLICY_PREFERRED_MANY 5 /* since Linux 5.15 */

/* ---- CPUs and memory -------------------------------------------------------------------------------- */

/* The system call itself, because glibc's wrapper with cpu_set_t knows only 1024 CPUs. */
int apply_read_cpus(pid_t tid, struct bitmap *cpus, struct hvd_error *err)
{
    memset(cpus, 0, sizeof(*cpus));
    if (syscall(SYS_sched_getaffinity, tid, sizeof(cpus->words), cpus->words) < 0)
        return error_set_errno(err, "cannot learn which CPUs this task may run on");
    return HVD_OK;
}

int apply_cpus(pid_t tid, const struct bitmap *cpus, struct hvd_error *err)
{
    char list[128];
    if (syscall(SYS_sched_setaffinity, tid, sizeof(cpus->words), cpus->words) < 0)
        return error_set_errno(err, "cannot bind to CPUs %s", bitmap_text(cpus, list, sizeof(list)));
    return HVD_OK;
}

void apply_mems(const struct bitmap *mems)
{
    struct bitmap first = {{0}};
    if (bitmap_is_empty(mems))
        return;
    if (syscall(SYS_set_mempolicy, POLICY_PREFERRED_MANY, mems->words, (unsigned long)BITMAP_BITS) == 0)
        return;
    bitmap_set(&first, bitmap_find_next(mems, 0));
    syscall(SYS_set_mempolicy, POLICY_PREFERRED, first.words, (unsigned long)BITMAP_BITS);
}

void apply_default_mems(void)
{
    syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0UL);
}

bool apply_mems_are_set(void)
{
    int policy = POLICY_DEFAULT;
    return syscall(SYS_get_mempolicy, &policy, NULL, 0UL, NULL, 0UL) == 0 && policy != POLICY_DEFAULT;
}

/* ---- Variables -------------------------------------------------------------------------------------- */

/* The variables of a task while they are collected. */
struct variable_list {
    const struct launched_task *launched;
    struct env_variable *variables;
    int count;
};

static const char *current_value(const struct launched_task *launched, const char *name)
{
    return environment_value(launched->environment, name);
}

/* Add a variable. Returns its value, which is empty, for the caller to fill. */
static char *add_variable(struct variable_list *collector, const char *name)
{
    struct env_variable *variable = &collector->variables[collector->count++];
    variable->name = name;
    variable->value[0] = 0;
    return variable->value;
}

/* As add, but returns NULL if the variable is already set. */
static char *add_variable_unless_set(struct variable_list *collector, const char *name)
{
    return current_value(collector->launched, name) != NULL ? NULL : add_variable(collector, name);
}

/* Take the entry at that position of a list into *wordp. Returns false if there is none. */
static bool list_entry(const char *list, int position, struct token *wordp)
{
    for (const char *at = list; at != NULL; position--) {
        at = token_next(at, ',', wordp);
        if (position == 0)
            return true;
    }
    return false;
}

/* Show the task only its own GPUs: by their names if the variable lists names now, otherwise by number. */
static int add_visible_gpus(struct variable_list *collector, struct hvd_error *err)
{
    const struct plan_task *task = collector->launched->task;
    const char *name = task->gpu_amd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
    const char *list = current_value(collector->launched, name);
    if (task->gpu_amd && current_value(collector->launched, "HIP_VISIBLE_DEVICES") != NULL)
        return error_set(
            err, HVD_ERR_INVALID,
            "gpu-visible=one: HIP_VISIBLE_DEVICES is set, which counts among what hvd is to show; "
            "unset it, or use ROCR_VISIBLE_DEVICES");
    char *value = add_variable(collector, name);
    for (int i = 0; i < task->gpu_count; i++) {
        struct token word;
        const char *comma = i == 0 ? "" : ",";
        if (list == NULL)
            text_append(value, APPLY_VALUE_BYTES, "%s%d", comma, task->devices[i]);
        else if (list_entry(list, task->devices[i], &word))
            text_append(value, APPLY_VALUE_BYTES, "%s%.*s", comma, (int)word.length, word.text);
        else
            return error_set(err, HVD_ERR_INVALID,
                             "gpu-visible=one: %s=%.100s has no entry for GPU %s; give --hvd-gpu-visible=all",
                             name, list, task->gpu_ids[i]);
    }
    return HVD_OK;
}

static int add_gpu_variables(struct variable_list *collector, struct hvd_error *err)
{
    const struct plan_task *task = collector->launched->task;
    bool one = collector->launched->gpu_visible == GPU_VISIBLE_ONE;
    if (task->gpu_count == 0)
        return HVD_OK;
    char *ids = add_variable(collector, "HVD_GPU_PCI");
    for (int i = 0; i < task->gpu_count; i++)
        text_append(ids, APPLY_VALUE_BYTES, "%s%s", i == 0 ? "" : ",", task->gpu_ids[i]);
    text_append(add_variable(collector, "HVD_LOCAL_DEVICE"), APPLY_VALUE_BYTES, "%d",
                one ? 0 : task->devices[0]);
    char *order = task->gpu_amd ? NULL : add_variable_unless_set(collector, "CUDA_DEVICE_ORDER");
    if (order != NULL)
        text_append(order, APPLY_VALUE_BYTES, "PCI_BUS_ID");
    return one ? add_visible_gpus(collector, err) : HVD_OK;
}

static void add_thread_variables(struct variable_list *collector)
{
    const struct plan_task *task = collector->launched->task;
    if (!task->bound || collector->launched->kept)
        return;
    char *threads = add_variable_unless_set(collector, "OMP_NUM_THREADS");
    if (threads != NULL)
        text_append(threads, APPLY_VALUE_BYTES, "%d", task->threads);
    char *places = task->places[0] == 0 ? NULL : add_variable_unless_set(collector, "OMP_PLACES");
    if (places != NULL)
        text_append(places, APPLY_VALUE_BYTES, "%s", task->places);
}

int apply_variables(const struct launched_task *launched, struct env_variable *variables,
                    struct hvd_error *err)
{
    struct variable_list collector = {launched, variables, 0};
    int rc = add_gpu_variables(&collector, err);
    if (rc != HVD_OK)
        return rc;
    add_thread_variables(&collector);
    int told = collector.count;
    char *placed = add_variable(&collector, PLACED_VARIABLE);
    text_append(placed, APPLY_VALUE_BYTES, "%s", launched->launcher);
    for (int i = 0; i < told; i++)
        text_append(placed, APPLY_VALUE_BYTES, ",%s", variables[i].name);
    return collector.count;
}

bool placed_next_variable(const char **atp, struct token *namep)
{
    struct token last;
    *atp = *atp == NULL ? NULL : token_next(*atp, ',', &last);
    if (*atp != NULL)
        token_next(*atp, ',', namep);
    return *atp != NULL;
}

bool placed_has_variable(const char *placed, const char *name)
{
    struct token listed;
    while (placed_next_variable(&placed, &listed))
        if (token_equals(listed, name))
            return true;
    return false;
}
