/* fake_slurm.h: a fake of the Slurm functions that the plug-in calls on a node. */
#ifndef TESTS_UNIT_FAKE_SLURM_H
#define TESTS_UNIT_FAKE_SLURM_H

#include "unit.h"

#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/options.h"

#define VARIABLE_COUNT 32

/* What the fake answers, and what the plug-in told it. */
static struct {
    struct spank_option options[OPTION_MAX + 3]; /* --hvd, --hvd-min and --hvd-spares are the last */
    char names[OPTION_MAX + 3][SPANK_OPTION_MAXLEN + 1];
    int registered;
    spank_err_t register_answer, setenv_answer;
    uint32_t job, step_id, task;
    int status;
    int local_task;
    uint32_t local_tasks, node_count, node_index;
    uid_t uid;
    gid_t gid;
    char *cores; /* NULL: Slurm does not tell which cores */
    char *environment[VARIABLE_COUNT + 1];
    _Atomic int errors, lines, asides;
    char last[2048]; /* the last message, which is there when it is counted */
} slurm;

__attribute__((format(printf, 2, 0))) static void take_line(_Atomic int *countp, const char *format,
                                                            va_list args)
{
    vsnprintf(slurm.last, sizeof(slurm.last), format, args);
    (*countp)++;
}

void slurm_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    take_line(&slurm.errors, format, args);
    va_end(args);
}

void slurm_spank_log(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    take_line(&slurm.lines, format, args);
    va_end(args);
}

void slurm_verbose(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    take_line(&slurm.asides, format, args);
    va_end(args);
}

const char *spank_strerror(spank_err_t err)
{
    (void)err;
    return "Generic error";
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
    (void)spank;
    ck_assert_int_le(slurm.registered, option_count + 2);
    ck_assert_ptr_nonnull(option->usage);
    snprintf(slurm.names[slurm.registered], sizeof(slurm.names[0]), "%s", option->name);
    slurm.options[slurm.registered++] = *option;
    return slurm.register_answer;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    spank_err_t answer = ESPANK_SUCCESS;
    va_list args;
    (void)spank;
    va_start(args, item);
    if (item == S_JOB_STEPID)
        *va_arg(args, uint32_t *) = slurm.step_id;
    else if (item == S_JOB_ID)
        *va_arg(args, uint32_t *) = slurm.job;
    else if (item == S_TASK_GLOBAL_ID)
        *va_arg(args, uint32_t *) = slurm.task;
    else if (item == S_TASK_ID)
        *va_arg(args, int *) = slurm.local_task;
    else if (item == S_TASK_PID)
        *va_arg(args, pid_t *) = 4711;
    else if (item == S_TASK_EXIT_STATUS)
        *va_arg(args, int *) = slurm.status;
    else if (item == S_JOB_LOCAL_TASK_COUNT)
        *va_arg(args, uint32_t *) = slurm.local_tasks;
    else if (item == S_JOB_NNODES)
        *va_arg(args, uint32_t *) = slurm.node_count;
    else if (item == S_JOB_NODEID)
        *va_arg(args, uint32_t *) = slurm.node_index;
    else if (item == S_JOB_UID)
        *va_arg(args, uid_t *) = slurm.uid;
    else if (item == S_JOB_GID)
        *va_arg(args, gid_t *) = slurm.gid;
    else if (item == S_JOB_ENV)
        *va_arg(args, char ***) = slurm.environment;
    else if (item == S_STEP_ALLOC_CORES)
        *va_arg(args, char **) = slurm.cores;
    else if (item == S_JOB_SUPPLEMENTARY_GIDS)
        answer = ESPANK_NOT_AVAIL;
    else
        ck_abort_msg("item %d", (int)item);
    va_end(args);
    return answer;
}

/* ---- The environment of the step ---- */

/* Where a variable is, or where the next would be. */
static char **find_variable(const char *name)
{
    char **at = slurm.environment;
    while (*at != NULL && (strncmp(*at, name, strlen(name)) != 0 || (*at)[strlen(name)] != '='))
        at++;
    return at;
}

/* NULL: it is not set. */
static inline const char *variable(const char *name)
{
    char **at = find_variable(name);
    return *at == NULL ? NULL : *at + strlen(name) + 1;
}

static inline void user_setenv(const char *name, const char *value)
{
    char **at = find_variable(name);
    ck_assert_ptr_ne(at, &slurm.environment[VARIABLE_COUNT]);
    free(*at);
    ck_assert_int_ge(asprintf(at, "%s=%s", name, value), 0);
}

/* Check that exactly these variables are set. */
static inline void expect_variables(const char *const *expected)
{
    char *const *at = slurm.environment;
    for (; *expected != NULL; at++, expected++)
        ck_assert_str_eq(*at == NULL ? "(nothing)" : *at, *expected);
    ck_assert_msg(*at == NULL, "%s", *at);
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buffer, int length)
{
    const char *value = variable(name);
    (void)spank;
    if (value == NULL)
        return ESPANK_ENV_NOEXIST;
    snprintf(buffer, (size_t)length, "%s", value);
    return strlen(value) < (size_t)length ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
    (void)spank;
    if (slurm.setenv_answer != ESPANK_SUCCESS)
        return slurm.setenv_answer;
    if (!overwrite && variable(name) != NULL)
        return ESPANK_ENV_EXISTS;
    user_setenv(name, value);
    return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
    char **at = find_variable(name);
    (void)spank;
    free(*at);
    for (; *at != NULL; at++)
        *at = at[1];
    return ESPANK_SUCCESS;
}

/* ---- Options ---- */

/* Pass an option of hvd to the plug-in, as Slurm does. */
static inline int give_option(const char *name, const char *value, int remote)
{
    int id = option_index(option_find(name));
    if (slurm.registered == 0)
        options_register(NULL);
    return slurm.options[id].cb(slurm.options[id].val, value, remote);
}

/* Pass --hvd=[word] to the plug-in. */
static inline int give_switch(const char *word, int remote)
{
    if (slurm.registered == 0)
        options_register(NULL);
    return slurm.options[option_count].cb(option_count, word, remote);
}

/* Pass --hvd-min=[word] to the plug-in. */
static inline int give_min(const char *word, int remote)
{
    if (slurm.registered == 0)
        options_register(NULL);
    return slurm.options[option_count + 1].cb(option_count + 1, word, remote);
}

static inline int give_spares(const char *word, int remote)
{
    if (slurm.registered == 0)
        options_register(NULL);
    return slurm.options[option_count + 2].cb(option_count + 2, word, remote);
}

#endif
