/* options.c: register the options of the table with SPANK, and keep the values that a step was given. */
#include "spank/options.h"

#include <stdio.h>
#include <string.h>

#include "spank/switch.h"

/* Global, because SPANK passes no data of a plug-in to an option's callback. One process serves one step, and
 * SPANK calls from one thread. The size is fixed: a repeated option replaces its value. */
static struct {
    bool given[OPTION_MAX];
    char value[OPTION_MAX][OPTION_VALUE_BYTES + 1];
    struct hvd_error refused; /* the first value that was not accepted */
    enum hvd_switch use;      /* by --hvd */
    int fewest, spares;       /* by --hvd-min and --hvd-spares; 0: not given */
} step;

/* May the option be given without a value? */
static bool takes_none(const struct hvd_option *option)
{
    return option->retired == NULL && option->type->bare != NULL;
}

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

/* SPANK's callback for --hvd, as take_value is for the others. */
static int take_switch(int val, const char *value, int remote)
{
    struct hvd_error err = {""};
    enum hvd_switch use = HVD_UNSET;
    (void)val;
    if (switch_parse(value, &use)) {
        step.use = use;
        return 0;
    }
    error_set(&err, HVD_ERR_INVALID, "--hvd=%.64s: expected on, off or verbose", value);
    if (!remote)
        slurm_error("%s", err.text);
    else if (step.refused.text[0] == 0)
        step.refused = err;
    return remote ? 0 : -1;
}

/* A number of ranks of an elastic step, which is for srun: the nodes do not need it. */
static int take_ranks(const char *name, const char *value, int *countp, int remote)
{
    if (switch_parse_ranks(value, countp) || remote)
        return 0;
    slurm_error("--hvd-%s=%.64s: expected a number of ranks between 1 and %d", name, value,
                SWITCH_MOST_RANKS);
    return -1;
}

/* SPANK's callbacks for --hvd-min and --hvd-spares. */
static int take_min(int val, const char *value, int remote)
{
    (void)val;
    return take_ranks(SWITCH_MIN, value, &step.fewest, remote);
}

static int take_spares(int val, const char *value, int remote)
{
    (void)val;
    return take_ranks(SWITCH_SPARES, value, &step.spares, remote);
}

/* SPANK's callback, called once each time an option is given or handed down, including twice with the same
 * value. The last call is nearest to the user and wins. In srun, sbatch and salloc a refusal ends the command
 * before it queues anything. In slurmstepd, which runs as root, a refusal would not end the step, so the
 * sentence is kept for the tasks. */
static int take_value(int val, const char *value, int remote)
{
    struct hvd_error err = {""};
    if (val < 0 || val >= option_count || (value == NULL && !takes_none(&option_table[val])))
        return -1;
    if (takes_none(&option_table[val]) && switch_is_bare(value))
        value = option_table[val].type->bare;
    int rc = check_value(&option_table[val], value, &err);
    if (rc < 0 && !remote)
        slurm_error("%s", err.text);
    if (rc < 0 && remote && step.refused.text[0] == 0)
        step.refused = err;
    if (rc < 0)
        return remote ? 0 : -1;
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

/* An option as it is registered with SPANK, whose own struct has char * in place of const char *. */
struct srun_option {
    const char *name; /* behind "hvd" */
    const char *arg, *usage;
    int has_arg; /* as in getopt_long */
    spank_opt_cb_f take;
};

static void register_option(spank_t spank, const struct srun_option *srun_option, int number)
{
    char name[SPANK_OPTION_MAXLEN + 1];
    char arg[32];
    char usage[256];
    snprintf(name, sizeof(name), "hvd%s", srun_option->name);
    snprintf(arg, sizeof(arg), "%s", srun_option->arg);
    snprintf(usage, sizeof(usage), "%s", srun_option->usage);
    struct spank_option option = {.name = name,
                                  .arginfo = arg,
                                  .usage = usage,
                                  .has_arg = srun_option->has_arg,
                                  .val = number,
                                  .cb = srun_option->take};
    spank_err_t rc = spank_option_register(spank, &option);
    if (rc != ESPANK_SUCCESS)
        slurm_error("hvd: --%s cannot be used: Slurm did not register it: %s", name, spank_strerror(rc));
}

/* Those that are in no table, as they are for the plug-in alone. */
static const struct srun_option own_options[] = {
    {"", "on|off|verbose", "use hvd: PMIx, placement, and variables that tell ranks their places", 2,
     take_switch},
    {"-" SWITCH_MIN, "ranks", "elastic: go on when ranks or nodes die, as long as this many ranks are left",
     1, take_min},
    {"-" SWITCH_SPARES, "ranks", "with --hvd-min: so many ranks wait, and take the places of those that die",
     1, take_spares},
};

void options_register(spank_t spank)
{
    for (int i = 0; i < option_count; i++) {
        char name[SPANK_OPTION_MAXLEN + 1];
        char usage[256];
        snprintf(name, sizeof(name), "-%s", option_table[i].name);
        write_usage(&option_table[i], usage, sizeof(usage));
        const struct srun_option row = {name, option_table[i].arg, usage,
                                        takes_none(&option_table[i]) ? 2 : 1, take_value};
        register_option(spank, &row, i);
    }
    for (size_t i = 0; i < sizeof(own_options) / sizeof(own_options[0]); i++)
        register_option(spank, &own_options[i], option_count + (int)i);
}

int options_fewest(void)
{
    return step.fewest;
}

int options_spares(void)
{
    return step.spares;
}

bool options_switched_off(void)
{
    return step.use == HVD_OFF;
}

bool options_use_hvd(const struct site *site, char *const *environment)
{
    bool given = step.use != HVD_UNSET || step.fewest > 0 || step.spares > 0;
    for (int i = 0; i < option_count; i++)
        given = given || step.given[i];
    return step.use != HVD_OFF && (given || site->all_steps || switch_in_environment(environment));
}

int options_list(char *list, struct hvd_error *err)
{
    char built[CONFIG_LIST_BYTES + 1] = "";
    if (step.refused.text[0] != 0)
        return error_set(err, HVD_ERR_INVALID, "%s", step.refused.text);
    bool show = step.use == HVD_VERBOSE && !step.given[OPTION_OF(bind) - option_table];
    int status = show ? config_list_add(built, OPTION_OF(bind), "verbose", err) : HVD_OK;
    if (status < 0)
        return status;
    for (int i = 0; i < option_count && step.use != HVD_OFF; i++) {
        int rc = step.given[i] ? config_list_add(built, &option_table[i], step.value[i], err) : HVD_OK;
        if (rc < 0)
            return rc;
    }
    memcpy(list, built, strlen(built) + 1);
    return HVD_OK;
}
