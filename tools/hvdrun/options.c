/* options.c: parse hvdrun's command line, and print its help. */
#include "tools/hvdrun/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "options/parse.h"

#define GRACE_MAX_US (INT64_C(3600) * 1000000)

/* hvdrun's own options. Those for the ranks are in option_table. */
static const struct {
    const char *letter; /* "-n", or NULL */
    const char *name;   /* "--ranks" */
    const char *arg;    /* name of the value; NULL: takes none */
    const char *help;
} launch_table[LAUNCH_COUNT] = {
    [LAUNCH_RANKS] = {"-n", "--ranks", "N", "start N ranks (default: as resource sets say, or 1)"},
    [LAUNCH_HOSTS] = {"-H", "--hosts", "h1:N,h2:N", "start up to N ranks on each of these hosts"},
    [LAUNCH_HOSTFILE] = {NULL, "--hostfile", "FILE", "the same from a file, with a line h1 slots=N for each"},
    [LAUNCH_LAUNCHER] = {NULL, "--launcher", "auto|local|srun|jsrun|prterun|mpirun",
                         "what starts the ranks (default: auto: srun in a Slurm job, jsrun in one of LSF, "
                         "prterun or mpirun for other hosts, otherwise hvdrun itself)"},
    [LAUNCH_DRY_RUN] = {NULL, "--dry-run", NULL, "print the command line of the launcher and start nothing"},
    [LAUNCH_VERBOSE] = {"-v", "--verbose", NULL, "say which launcher was chosen, and why"},
    [LAUNCH_MAX_RESTARTS] = {NULL, "--max-restarts", "N",
                             "start all ranks again after a failure, up to N times (default: 0)"},
    [LAUNCH_GRACE] = {NULL, "--grace", "TIME", "wait TIME between SIGTERM and SIGKILL (default: 5s)"},
    [LAUNCH_NO_PREFIX] = {NULL, "--no-prefix", NULL, "do not put the rank before each line of output"},
    [LAUNCH_PTY] = {NULL, "--pty", "auto|on|off",
                    "is the ranks' output a pseudo-terminal (default: auto: unless --no-prefix sends it to a "
                    "file or pipe)"},
    [LAUNCH_TIMESTAMPS] = {NULL, "--timestamps", NULL, "put the time of day before each line of output"},
    [LAUNCH_OUTPUT_DIR] = {NULL, "--output-dir", "DIR",
                           "also write each rank's output to DIR/rank.N.out and DIR/rank.N.err"},
    [LAUNCH_ONLY_RANK] = {NULL, "--only-rank", "LIST|none",
                          "show the output of these ranks alone, as in 0,4-7"},
    [LAUNCH_ENV] = {"-x", "--env", "NAME=VALUE", "set a variable for the ranks"},
    [LAUNCH_HELP] = {"-h", "--help", NULL, "show this and exit"},
    [LAUNCH_VERSION] = {"-V", "--version", NULL, "show the version and exit"},
    [LAUNCH_NP] = {NULL, "--np", "N", "the same as --ranks"},
    [LAUNCH_NRS] = {NULL, "--nrs", "N", "make N resource sets, and start the tasks of all as ranks"},
    [LAUNCH_TASKS] = {NULL, "--tasks_per_rs", "N", "tasks in each (default: 1)"},
    [LAUNCH_CPUS] = {NULL, "--cpu_per_rs", "N|ALL_CPUS", "cores in each (default: 1)"},
    [LAUNCH_GPUS] = {NULL, "--gpu_per_rs", "N|ALL_GPUS", "GPUs in each (default: 0)"},
    [LAUNCH_PER_HOST] = {NULL, "--rs_per_host", "N", "divide the machine among N"},
    [LAUNCH_BIND] = {NULL, "--bind", "none|rs|packed:N", "cores of each task in its set (default: packed:1)"},
    [LAUNCH_DISTRIBUTION] = {NULL, "--launch_distribution", "packed|cyclic|plane:N",
                             "how ranks go round the sets (default: packed)"},
    [LAUNCH_LATENCY] = {NULL, "--latency_priority", "LIST",
                        "of gpu-cpu, cpu-mem, cpu-cpu: what is to be near"},
    [LAUNCH_ERF] = {NULL, "--erf_input", "FILE", "an explicit resource file: the ranks, and where each runs"},
};

/* Reads argv from left to right. */
struct options_reader {
    char *const *at; /* the next word */
    struct hvdrun_options *options;
    struct rs_options rs;    /* from jsrun's options */
    const char *jsrun;       /* the last of jsrun's options that was given, or NULL */
    const char *ranks_given; /* how the number of ranks was given, or NULL */
    bool rs_given;           /* by --hvd-rs */
    struct hvd_error *err;
};

static int parse_ranks(struct options_reader *reader, const char *where, const char *text)
{
    int64_t count = 0;
    const char *why = "";
    if (parse_count(text, &count, &why) < 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%s %.100s: the number of ranks %s; expected 1 to %d",
                         where, text, why, HVDRUN_MAX_ASKED);
    if (count < 1 || count > HVDRUN_MAX_ASKED)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "%s %.100s: the number of ranks is %s; expected 1 to %d", where, text,
                         count < 1 ? "too small" : "too large", HVDRUN_MAX_ASKED);
    reader->options->ranks = (int)count;
    reader->ranks_given = where;
    return HVD_OK;
}

static int parse_erf(struct options_reader *reader, const char *where, const char *text)
{
    if (text[0] == 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%s: the name is empty; expected a file", where);
    reader->options->erf = text;
    return HVD_OK;
}

/* [where] is the option's name in jsrun. */
static int parse_jsrun(struct options_reader *reader, enum launch_option id, const char *text)
{
    const char *where = launch_table[id].name;
    const char *why = "";
    reader->jsrun = where;
    if (rs_set(&reader->rs, where + strlen("--"), text, &why) == 0)
        return HVD_OK;
    return error_set(reader->err, HVD_ERR_INVALID, "%s=%.100s: the value %s; expected %s%s", where, text, why,
                     launch_table[id].arg, id == LAUNCH_BIND ? ", and policies are given to --hvd-bind" : "");
}

static int parse_grace(struct options_reader *reader, const char *where, const char *text)
{
    int64_t us = 0;
    const char *why = "";
    if (parse_time(text, &us, &why) == 0 && us > GRACE_MAX_US)
        why = "is too large";
    else if (why[0] == 0) {
        reader->options->grace_us = us;
        return HVD_OK;
    }
    return error_set(
        reader->err, HVD_ERR_INVALID,
        "%s %.100s: the time %s; expected a time with us, ms, s, min or h, at most 1h, such as 5s", where,
        text, why);
}

static int parse_pty(struct options_reader *reader, const char *where, const char *text)
{
    static const char *const words[] = {
        [OUTPUT_PTY_AUTO] = "auto", [OUTPUT_PTY_ON] = "on", [OUTPUT_PTY_OFF] = "off"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            reader->options->output.pty = (enum output_pty)i;
            return HVD_OK;
        }
    }
    return error_set(reader->err, HVD_ERR_INVALID, "%s %.100s: expected auto, on or off", where, text);
}

static int parse_only_rank(struct options_reader *reader, const char *where, const char *text)
{
    const char *why = "";
    struct output_options *output = &reader->options->output;
    output->only = true;
    output->ranks = (struct bitmap){{0}};
    if (strcmp(text, "none") == 0 || bitmap_parse(text, &output->ranks, &why) == 0)
        return HVD_OK;
    return error_set(reader->err, HVD_ERR_INVALID,
                     "%s %.100s: the list %s; expected ranks such as 0 or 0,4-7, or none", where, text, why);
}

/* On this machine ranks inherit hvdrun's environment; a name alone matters where ranks run on others. */
static int parse_env(struct options_reader *reader, const char *where, const char *text)
{
    bool is_setting = strchr(text, '=') != NULL;
    const char **list = is_setting ? reader->options->variables : reader->options->forwarded;
    int count = 0;
    while (list[count] != NULL)
        count++;
    if (text[0] == 0 || text[0] == '=')
        return error_set(reader->err, HVD_ERR_INVALID, "%s %.100s: the name is empty; expected NAME=VALUE",
                         where, text);
    if (count == HVDRUN_MAX_VARIABLES)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "%s %.100s: at most %d variables can be given; set others before hvdrun", where,
                         text, HVDRUN_MAX_VARIABLES);
    if (!is_setting && getenv(text) == NULL)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "%s %.100s: the variable is not set; set it, or give NAME=VALUE", where, text);
    list[count] = text;
    return HVD_OK;
}

static int parse_launcher(struct options_reader *reader, const char *where, const char *text)
{
    if (launcher_parse(text, &reader->options->launcher))
        return HVD_OK;
    return error_set(reader->err, HVD_ERR_INVALID, "%s %.100s: expected %s", where, text,
                     launch_table[LAUNCH_LAUNCHER].arg);
}

static int parse_max_restarts(struct options_reader *reader, const char *where, const char *text)
{
    int64_t count = 0;
    const char *why = "is too large";
    if (parse_count(text, &count, &why) < 0 || count > HVDRUN_MAX_RESTARTS)
        return error_set(reader->err, HVD_ERR_INVALID, "%s %.100s: the number %s; expected 0 to %d", where,
                         text, why, HVDRUN_MAX_RESTARTS);
    reader->options->max_restarts = (int)count;
    return HVD_OK;
}

static int parse_hosts(struct options_reader *reader, const char *where, const char *text)
{
    const struct hvdrun_options *options = reader->options;
    if (text[0] == 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%s: no host is given; expected %s", where,
                         where[1] == 'H' ? "h1:4,h2:4" : launch_table[LAUNCH_HOSTFILE].arg);
    if (options->values[LAUNCH_HOSTS] != NULL && options->values[LAUNCH_HOSTFILE] != NULL)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "-H and --hostfile both name hosts; leave one of them out");
    return HVD_OK;
}

static int parse_output_dir(struct options_reader *reader, const char *where, const char *text)
{
    if (text[0] == 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%s: the name is empty; expected a directory", where);
    reader->options->output.directory = text;
    return HVD_OK;
}

static int apply(struct options_reader *reader, enum launch_option id, const char *where, const char *value)
{
    reader->options->values[id] = value != NULL ? value : "";
    switch (id) {
    case LAUNCH_HOSTS:
    case LAUNCH_HOSTFILE:
        return parse_hosts(reader, where, value);
    case LAUNCH_LAUNCHER:
        return parse_launcher(reader, where, value);
    case LAUNCH_DRY_RUN:
        reader->options->dry_run = true;
        return HVD_OK;
    case LAUNCH_VERBOSE:
        reader->options->verbose = true;
        return HVD_OK;
    case LAUNCH_MAX_RESTARTS:
        return parse_max_restarts(reader, where, value);
    case LAUNCH_RANKS:
    case LAUNCH_NP:
        return parse_ranks(reader, where, value);
    case LAUNCH_GRACE:
        return parse_grace(reader, where, value);
    case LAUNCH_NO_PREFIX:
        reader->options->output.prefix = false;
        return HVD_OK;
    case LAUNCH_TIMESTAMPS:
        reader->options->output.timestamps = true;
        return HVD_OK;
    case LAUNCH_OUTPUT_DIR:
        return parse_output_dir(reader, where, value);
    case LAUNCH_ONLY_RANK:
        return parse_only_rank(reader, where, value);
    case LAUNCH_ENV:
        return parse_env(reader, where, value);
    case LAUNCH_PTY:
        return parse_pty(reader, where, value);
    case LAUNCH_HELP:
        reader->options->action = HVDRUN_HELP;
        return HVD_OK;
    case LAUNCH_VERSION:
        reader->options->action = HVDRUN_VERSION;
        return HVD_OK;
    case LAUNCH_ERF:
        return parse_erf(reader, where, value);
    case LAUNCH_NRS:
    case LAUNCH_TASKS:
    case LAUNCH_CPUS:
    case LAUNCH_GPUS:
    case LAUNCH_PER_HOST:
    case LAUNCH_BIND:
    case LAUNCH_DISTRIBUTION:
    case LAUNCH_LATENCY:
        return parse_jsrun(reader, id, value);
    case LAUNCH_COUNT:
        break;
    }
    return HVD_ERR_INVALID;
}

/* The value of an option: the text after '=' ([attached]), or the next word. */
static int take_value(struct options_reader *reader, const char *where, const char *attached,
                      const char *expected, const char **valuep)
{
    if (attached != NULL) {
        *valuep = attached;
        return HVD_OK;
    }
    if (*reader->at == NULL)
        return error_set(reader->err, HVD_ERR_INVALID, "%s needs a value: expected %s", where, expected);
    *valuep = *reader->at++;
    return HVD_OK;
}

/* The options of hvd begin with --hvd-, which is easily forgotten. */
static int unknown(struct options_reader *reader, const char *word)
{
    char name[64], own[64] = "", hint[NEAREST_HINT_BYTES];
    struct nearest nearest = {.word = name};
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    if (strcmp(name, "--hvd") == 0)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "%.100s is an option of srun; hvdrun always uses hvd: leave it out", word);
    bool is_hvd = strncmp(name, "--hvd-", strlen("--hvd-")) == 0;
    const char *option = option_nearest(name + (is_hvd ? strlen("--hvd-") : strspn(name, "-")));
    for (int id = 0; id < LAUNCH_COUNT; id++)
        nearest_try(&nearest, launch_table[id].name);
    if (option != NULL && (is_hvd || nearest.name == NULL)) {
        snprintf(own, sizeof(own), "--hvd-%s", option);
        nearest.name = own;
    }
    return error_set(
        reader->err, HVD_ERR_INVALID, "unknown option %.100s; %s", word,
        nearest_hint(&nearest,
                     "hvdrun --help lists the options, and a command that begins with - goes after --",
                     hint));
}

/* A word that is left out after an option that can do without: what it means then. */
static const char *bare_value(const struct options_reader *reader, const struct hvd_option *option)
{
    const char *bare = option->retired == NULL ? option->type->bare : NULL;
    const char *next = *reader->at;
    bool given = next != NULL && option_parse(option, "", next, NULL, NULL) == HVD_OK;
    return given ? NULL : bare;
}

/* --hvd-fusion=64M or --hvd-fusion 64M: checked here and passed to the ranks. */
static int read_hvd(struct options_reader *reader, const char *word)
{
    char where[64];
    char expected[256];
    const char *value = NULL;
    size_t length = strcspn(word, "=");
    const struct hvd_option *option = NULL;
    if (length < sizeof(where)) {
        memcpy(where, word, length);
        where[length] = 0;
        option = option_find(where + strlen("--hvd-"));
    }
    if (option == NULL)
        return unknown(reader, word);
    option_expected(option, expected, sizeof(expected));
    const char *attached = word[length] == '=' ? word + length + 1 : bare_value(reader, option);
    int status = take_value(reader, where, attached, expected, &value);
    if (status == HVD_OK)
        status = option_parse(option, where, value, NULL, reader->err);
    if (status == HVD_OK)
        status = config_list_add(reader->options->cli, option, value, reader->err);
    reader->rs_given = reader->rs_given || option == OPTION_OF(rs);
    return status;
}

/* --grace=1s, --grace 1s, --no-prefix */
static int read_long(struct options_reader *reader, const char *word)
{
    size_t length = strcspn(word, "=");
    for (int id = 0; id < LAUNCH_COUNT; id++) {
        const char *name = launch_table[id].name;
        const char *attached = word[length] == '=' ? word + length + 1 : NULL;
        const char *value = NULL;
        if (strlen(name) != length || memcmp(name, word, length) != 0)
            continue;
        if (launch_table[id].arg == NULL && attached != NULL)
            return error_set(reader->err, HVD_ERR_INVALID, "%s takes no value, but was given %.100s", name,
                             attached);
        if (launch_table[id].arg != NULL) {
            int status = take_value(reader, name, attached, launch_table[id].arg, &value);
            if (status != HVD_OK)
                return status;
        }
        return apply(reader, (enum launch_option)id, name, value);
    }
    return unknown(reader, word);
}

/* -n 4, -n4, and -np 4 for users of mpirun */
static int read_short(struct options_reader *reader, const char *word)
{
    for (int id = 0; id < LAUNCH_COUNT; id++) {
        const char *letter = launch_table[id].letter;
        bool alias = id == LAUNCH_RANKS && strcmp(word, "-np") == 0;
        const char *attached = word[2] != 0 && !alias ? word + 2 : NULL;
        const char *value = NULL;
        if (letter == NULL || word[1] != letter[1])
            continue;
        if (launch_table[id].arg == NULL && attached != NULL)
            break;
        if (launch_table[id].arg != NULL) {
            int status = take_value(reader, letter, attached, launch_table[id].arg, &value);
            if (status != HVD_OK)
                return status;
        }
        return apply(reader, (enum launch_option)id, letter, value);
    }
    return unknown(reader, word);
}

static int read_word(struct options_reader *reader, const char *word)
{
    if (strncmp(word, "--hvd-", strlen("--hvd-")) == 0)
        return read_hvd(reader, word);
    return word[1] == '-' ? read_long(reader, word) : read_short(reader, word);
}

static int inherit(struct hvdrun_options *options, const char *inherited_cli, struct hvd_error *err)
{
    if (inherited_cli == NULL)
        return HVD_OK;
    if (strlen(inherited_cli) > CONFIG_LIST_BYTES)
        return error_set(err, HVD_ERR_INVALID,
                         CONFIG_CLI_VARIABLE " is longer than %d bytes; an outer launcher sets it: unset it",
                         CONFIG_LIST_BYTES);
    memcpy(options->cli, inherited_cli, strlen(inherited_cli) + 1);
    return HVD_OK;
}

/* Translate jsrun's options into --hvd-rs, which passes them to the ranks too. */
static int add_rs_to_cli(struct options_reader *reader)
{
    char text[RS_TEXT_BYTES];
    reader->options->cli_sets = strlen(reader->options->cli);
    if (reader->jsrun == NULL)
        return HVD_OK;
    if (reader->rs_given)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "%s and --hvd-rs both say what resource sets are; give all of it to one of them",
                         reader->jsrun);
    reader->options->sets = reader->rs;
    reader->options->sets.given = true;
    if (rs_text(&reader->rs, text)[0] == 0) /* every option has its default value */
        snprintf(text, sizeof(text), "tasks:1");
    return config_list_add(reader->options->cli, OPTION_OF(rs), text, reader->err);
}

static int check_erf(const struct options_reader *reader)
{
    const char *other = reader->ranks_given != NULL ? reader->ranks_given
                        : reader->jsrun != NULL     ? reader->jsrun
                        : reader->rs_given          ? "--hvd-rs"
                                                    : NULL;
    if (reader->options->erf == NULL || other == NULL)
        return HVD_OK;
    return error_set(reader->err, HVD_ERR_INVALID,
                     "--erf_input and %s: an explicit resource file says itself which ranks there are and "
                     "where; leave %s out",
                     other, other);
}

/* ---- Programs -------------------------------------------------------------------------------- */

/* The program at [reader]: its words up to a lone colon or the end. */
static int read_program(struct options_reader *reader)
{
    struct hvdrun_options *options = reader->options;
    struct hvdrun_app *app = &options->apps[options->app_count];
    if (*reader->at == NULL || strcmp(*reader->at, ":") == 0)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "no command was given%s; expected hvdrun [-n N] [options] [--] command [arg ...]",
                         options->app_count > 0 || *reader->at != NULL ? " beside a colon" : "");
    if ((*reader->at)[0] == 0)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "the command is an empty word; expected a program to start");
    if (options->app_count == HVDRUN_MAX_APPS)
        return error_set(reader->err, HVD_ERR_INVALID, "more than %d programs; a job may have that many",
                         HVDRUN_MAX_APPS);
    *app = (struct hvdrun_app){.ranks = options->ranks, .command = reader->at};
    while (reader->at[app->word_count] != NULL && strcmp(reader->at[app->word_count], ":") != 0)
        app->word_count++;
    reader->at += app->word_count;
    options->app_count++;
    return HVD_OK;
}

static bool is_count_option(const char *word)
{
    size_t length = strcspn(word, "=");
    return (word[1] == 'n' && word[0] == '-') || (length == 7 && memcmp(word, "--ranks", 7) == 0) ||
           (length == 4 && memcmp(word, "--np", 4) == 0);
}

/* What follows a colon: -n N, and a program. */
static int read_next_app(struct options_reader *reader)
{
    int status = HVD_OK;
    reader->options->ranks = 0;
    while (status == HVD_OK && *reader->at != NULL && (*reader->at)[0] == '-' && (*reader->at)[1] != 0) {
        const char *word = *reader->at++;
        if (strcmp(word, "--") == 0)
            break;
        if (!is_count_option(word))
            return error_set(
                reader->err, HVD_ERR_INVALID,
                "%.100s: after a colon only -n N is understood; give other options before the first "
                "program",
                word);
        status = read_word(reader, word);
    }
    return status == HVD_OK ? read_program(reader) : status;
}

/* Each program of several has one rank where -n is not given. */
static int count_all(struct options_reader *reader)
{
    struct hvdrun_options *options = reader->options;
    int64_t total = 0;
    for (int i = 0; options->app_count > 1 && i < options->app_count; i++) {
        struct hvdrun_app *app = &options->apps[i];
        app->ranks = app->ranks == 0 ? 1 : app->ranks;
        total += app->ranks;
    }
    if (total > HVDRUN_MAX_ASKED)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "the programs have %lld ranks together; expected at most %d", (long long)total,
                         HVDRUN_MAX_ASKED);
    if (total > 0) {
        options->ranks = (int)total;
        reader->ranks_given = "a colon";
    }
    return HVD_OK;
}

static int read_programs(struct options_reader *reader)
{
    int status = read_program(reader);
    while (status == HVD_OK && *reader->at != NULL) {
        reader->at++; /* the colon */
        status = read_next_app(reader);
    }
    return status == HVD_OK ? count_all(reader) : status;
}

int hvdrun_options_parse(struct hvdrun_options *options, char *const *argv, const char *inherited_cli,
                         struct hvd_error *err)
{
    struct options_reader reader = {.at = argv[0] == NULL ? argv : argv + 1, .options = options, .err = err};
    *options = (struct hvdrun_options){.action = HVDRUN_RUN, .grace_us = 5000000, .output = {.prefix = true}};
    rs_init(&reader.rs);
    int status = inherit(options, inherited_cli, err);
    while (status == HVD_OK && *reader.at != NULL && (*reader.at)[0] == '-' && (*reader.at)[1] != 0) {
        const char *word = *reader.at++;
        if (strcmp(word, "--") == 0)
            break;
        status = read_word(&reader, word);
        if (status == HVD_OK && options->action != HVDRUN_RUN)
            return HVD_OK;
    }
    if (status == HVD_OK && options->output.timestamps && !options->output.prefix)
        status = error_set(err, HVD_ERR_INVALID,
                           "--timestamps and --no-prefix: times go before the prefix; leave one of them out");
    if (status == HVD_OK)
        status = read_programs(&reader);
    if (status == HVD_OK)
        status = check_erf(&reader);
    return status == HVD_OK ? add_rs_to_cli(&reader) : status;
}

const char *hvdrun_option_name(enum launch_option id)
{
    return launch_table[id].name;
}

bool hvdrun_option_given(const struct hvdrun_options *options, enum launch_option id)
{
    return options->values[id] != NULL;
}

static void show(FILE *to, const char *spelling, const char *help, const char *def)
{
    fprintf(to, "  %-28s %s", spelling, help);
    if (def[0] != 0)
        fprintf(to, " (default: %s)", def);
    fputc('\n', to);
}

void hvdrun_options_help(FILE *to)
{
    char spelling[128];
    fprintf(to,
            "Usage: hvdrun [-n N] [options] [--] command [arg ...] [: [-n N] command [arg ...]] ...\n"
            "Start N ranks of a command, here or by the launcher of the job, and carry their output.\n\n");
    for (int id = 0; id < LAUNCH_COUNT; id++) {
        const char *letter = launch_table[id].letter;
        const char *arg = launch_table[id].arg;
        if (id == LAUNCH_NP)
            fprintf(to, "\nOptions of jsrun: resource sets, of which the ranks are the tasks:\n");
        snprintf(spelling, sizeof(spelling), "%s%s%s%s%s", letter == NULL ? "    " : letter,
                 letter == NULL ? "" : ", ", launch_table[id].name, arg == NULL ? "" : "=",
                 arg == NULL ? "" : arg);
        show(to, spelling, launch_table[id].help, "");
    }
    fprintf(to, "\nOptions for the ranks; --hvd-NAME=VALUE or --hvd-NAME VALUE:\n");
    for (int i = 0; i < option_count; i++) {
        const struct hvd_option *option = &option_table[i];
        if (option->retired != NULL)
            continue;
        memcpy(spelling, "    ", 4);
        option_spelling(option, spelling + 4, sizeof(spelling) - 4);
        show(to, spelling, option->help, option->def);
    }
}
