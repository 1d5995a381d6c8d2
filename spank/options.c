/* options.c: register the options of the table with SPANK, and keep the values that a step was given. */
#include "options.h"

#include <stdio.h>
#include <string.h>

/* Global, because SPANK passes no data of a plug-in to an option's callback. One process serves one step, and
 * SPANK calls from one thread. The size is fixed: a repeated option replaces its value. */
static struct {
    bool given[OPTION_MAX];
    char value[OPTION_MAX][OPTION_VALUE_BYTES + 1];
    struct hvd_error refused; /* the first value that was not accepted */
} step;

/* Check a value as the user gave it, and that it can be passed on to the ranks. */
static int check_value(const struct hvd_option *option, const char *value, struct hvd_error *err)
{
    char where[SPANK_OPTION_MAXLEN + 3];
    char list[CONFIG_LIST_BYTES + 1] = "";
    snprintf(where, sizeof(where), "--hvd-%s", option->name);
    int rc = option_parse(option, where, value, NULL, err);
    if (rc < 0)
        return rc;
    struct hvd_error why = {""};
    rc = config_list_add(list, option, value, &why);
    return rc < 0 ? error_set(err, rc, "--hvd-%s", why.text) : HVD_OK;
}

/* SPANK's callback, called once each time an option is given or handed down, including twice with the same
 * value. The last call is nearest to the user and wins. In srun, sbatch and salloc a refusal ends the command
 * before it queues anything. In slurmstepd, which runs as root, a refusal would not end the step, so the
 * sentence is kept for the tasks. */
static int take_value(int val, const char *value, int remote)
{
    struct hvd_error err = {""};
    if (val < 0 || val >= option_count || value == NULL)
        return -1;
    int rc = check_value(&option_table[val], value, &err);
    if (!remote) {
        if (rc < 0)
            slurm_error("%s", err.text);
        return rc < 0 ? -1 : 0;
    }
    if (rc < 0) {
        if (step.refused.text[0] == 0)
            step.refused = err;
        return 0;
    }
    step.given[val] = true;
    memcpy(step.value[val], value, strlen(value) + 1);
    return 0;
}

static void write_usage(const struct hvd_option *option, char *text, size_t text_bytes)
{
    if (option->retired != NULL)
        snprintf(text, text_bytes, "retired: %s", option->retired);
    else if (option->def[0] == 0)
        snprintf(text, text_bytes, "%s", option->help);
    else
        snprintf(text, text_bytes, "%s (default: %s)", option->help, option->def);
}

void options_register(spank_t spank)
{
    for (int i = 0; i < option_count; i++) {
        char name[SPANK_OPTION_MAXLEN + 1];
        char arg[32];
        char usage[256];
        snprintf(name, sizeof(name), "hvd-%s", option_table[i].name);
        snprintf(arg, sizeof(arg), "%s", option_table[i].arg);
        write_usage(&option_table[i], usage, sizeof(usage));
        struct spank_option option = {
            .name = name, .arginfo = arg, .usage = usage, .has_arg = 1, .val = i, .cb = take_value};
        spank_err_t rc = spank_option_register(spank, &option);
        if (rc != ESPANK_SUCCESS)
            slurm_error("hvd: --%s cannot be used: Slurm did not register it: %s", name, spank_strerror(rc));
    }
}

bool options_given(void)
{
    for (int i = 0; i < option_count; i++) {
        if (step.given[i])
            return true;
    }
    return false;
}

int options_list(char *list, struct hvd_error *err)
{
    char built[CONFIG_LIST_BYTES + 1] = "";
    if (step.refused.text[0] != 0)
        return error_set(err, HVD_ERR_INVALID, "%s", step.refused.text);
    for (int i = 0; i < option_count; i++) {
        int rc = step.given[i] ? config_list_add(built, &option_table[i], step.value[i], err) : HVD_OK;
        if (rc < 0)
            return rc;
    }
    memcpy(list, built, strlen(built) + 1);
    return HVD_OK;
}
