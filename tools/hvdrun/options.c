/* options.c: parse hvdrun's command line, and print its help. */
#include "tools/hvdrun/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "options/nearest.h"
#include "options/parse.h"
#include "tools/common/launch_events.h"
#include "tools/common/option_reader.h"
#include "tools/hvdrun/foreign_options.h"

#define HOUR_US            (INT64_C(3600) * 1000000)
#define GRACE_MAX_US       HOUR_US
#define ELASTIC_TIMEOUT_US (INT64_C(600) * 1000000)
#define RESET_LIMIT_MAX    1000000

/* Reads argv from left to right. */
struct options_reader {
    char *const *at; /* the next word */
    struct hvdrun_options *options;
    struct hvd_error *err;
};

/* ---- hvdrun's own options ---------------------------------------------------------------------- */

static int take_ranks(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    int64_t count = 0;
    const char *why = NULL;
    if (parse_count(given->value, &count, &why) == 0 && (count < 1 || count > HVDRUN_MAX_ASKED))
        why = count < 1 ? "is too small" : "is too large";
    if (why != NULL)
        return error_set(err, HVD_ERR_INVALID, "%s %.100s: the number of ranks %s; expected 1 to %d",
                         given->where, given->value, why, HVDRUN_MAX_ASKED);
    options->ranks = (int)count;
    options->ranks_from = given->where;
    return HVD_OK;
}

/* The name of the option is that of jsrun. */
static int take_jsrun(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    const char *where = given->option->name;
    const char *why = "";
    options->sets_from = where;
    if (rs_set(&options->sets, where + strlen("--"), given->value, &why) == 0)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID, "%s=%.100s: the value %s; expected %s%s", where, given->value, why,
                     given->option->arg,
                     strcmp(where, "--bind") == 0 ? ", and policies are given to --hvd-bind" : "");
}

static int take_time(void *to, const struct option_given *given, struct hvd_error *err)
{
    int64_t us = 0;
    const char *why = "";
    if (parse_time(given->value, &us, &why) == 0 && us > given->option->max)
        why = "is too large";
    else if (why[0] == 0) {
        memcpy((char *)to + given->option->offset, &us, sizeof(us));
        return HVD_OK;
    }
    return error_set(
        err, HVD_ERR_INVALID,
        "%s %.100s: the time %s; expected a time with us, ms, s, min or h, at most %lldh, such as 5s",
        given->where, given->value, why, (long long)(given->option->max / HOUR_US));
}

static int take_pty(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    static const char *const words[] = {
        [OUTPUT_PTY_AUTO] = "auto", [OUTPUT_PTY_ON] = "on", [OUTPUT_PTY_OFF] = "off"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(given->value, words[i]) == 0) {
            options->output.pty = (enum output_pty)i;
            return HVD_OK;
        }
    }
    return error_set(err, HVD_ERR_INVALID, "%s %.100s: expected auto, on or off", given->where, given->value);
}

static int take_only_rank(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    const char *why = "";
    struct output_options *output = &options->output;
    output->only = true;
    output->ranks = (struct bitmap){{0}};
    if (strcmp(given->value, "none") == 0 || bitmap_parse(given->value, &output->ranks, &why) == 0)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "%s %.100s: the list %s; expected ranks such as 0 or 0,4-7, or none", given->where,
                     given->value, why);
}

/* On this machine ranks inherit hvdrun's environment; a name alone matters where ranks run on others. */
static int take_env(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    bool is_setting = strchr(given->value, '=') != NULL;
    const char **list = is_setting ? options->variables : options->forwarded;
    int count = 0;
    while (list[count] != NULL)
        count++;
    if (given->value[0] == 0 || given->value[0] == '=')
        return error_set(err, HVD_ERR_INVALID, "%s %.100s: the name is empty; expected NAME=VALUE",
                         given->where, given->value);
    if (count == HVDRUN_MAX_VARIABLES)
        return error_set(err, HVD_ERR_INVALID,
                         "%s %.100s: at most %d variables can be given; set others before hvdrun",
                         given->where, given->value, HVDRUN_MAX_VARIABLES);
    if (!is_setting && getenv(given->value) == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%s %.100s: the variable is not set; set it, or give NAME=VALUE", given->where,
                         given->value);
    list[count] = given->value;
    return HVD_OK;
}

static int take_launcher(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    if (launcher_parse(given->value, &options->launcher))
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID, "%s %.100s: expected %s", given->where, given->value,
                     given->option->arg);
}

static int take_cooldown(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    return cooldown_parse(given->value, given->where, &options->cooldown, err);
}

static int take_join(void *to, const struct option_given *given, struct hvd_error *err)
{
    int64_t port = 0;
    const char *why = "is missing";
    const char *colon = strrchr(given->value, ':');
    struct hvdrun_options *options = to;
    if (colon != NULL && parse_count(colon + 1, &port, &why) == 0)
        why = port >= 1 && port <= UINT16_MAX ? NULL : "is out of range";
    if (why != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%s %.100s: the port %s; expected HOST:PORT, as the hvdrun of the job says them",
                         given->where, given->value, why);
    options->join = given->value;
    return HVD_OK;
}

static int take_max_restarts(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    int64_t count = 0;
    const char *why = "is too large";
    if (parse_count(given->value, &count, &why) < 0 || count > HVDRUN_MAX_RESTARTS)
        return error_set(err, HVD_ERR_INVALID, "%s %.100s: the number %s; expected 0 to %d", given->where,
                         given->value, why, HVDRUN_MAX_RESTARTS);
    options->max_restarts = (int)count;
    return HVD_OK;
}

/* A number of ranks or slots, in an int. */
static int take_number(void *to, const struct option_given *given, struct hvd_error *err)
{
    int64_t count = 0;
    const char *why = "is out of range";
    if (parse_count(given->value, &count, &why) < 0 || count < 1 || count > HVDRUN_MAX_ASKED)
        return error_set(err, HVD_ERR_INVALID, "%s %.100s: the number %s; expected 1 to %d", given->where,
                         given->value, why, HVDRUN_MAX_ASKED);
    int number = (int)count;
    memcpy((char *)to + given->option->offset, &number, sizeof(number));
    return HVD_OK;
}

static int take_hosts(void *to, const struct option_given *given, struct hvd_error *err)
{
    const struct hvdrun_options *options = to;
    if (given->value[0] == 0)
        return error_set(err, HVD_ERR_INVALID, "%s: no host is given; expected %s", given->where,
                         given->where[1] == 'H' ? "h1:4,h2:4" : given->option->arg);
    if (options->values[LAUNCH_HOSTS] != NULL && options->values[LAUNCH_HOSTFILE] != NULL)
        return error_set(err, HVD_ERR_INVALID, "-H and --hostfile both name hosts; leave one of them out");
    return HVD_OK;
}

static int take_line_prefix(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    options->output.line_prefix.template = given->value;
    return line_prefix_check(given->value, given->where, err);
}

static int take_no_prefix(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    (void)given;
    (void)err;
    options->output.prefix = false;
    return HVD_OK;
}

static int take_action(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    (void)err;
    options->action = strcmp(given->option->name, "--help") == 0 ? HVDRUN_HELP : HVDRUN_VERSION;
    return HVD_OK;
}

/* hvdrun's own options. Those for the ranks are in option_table. */
static const struct tool_option launch_table[LAUNCH_COUNT] = {
#define FIELD(name) offsetof(struct hvdrun_options, name)
    [LAUNCH_RANKS] = {"-n", "--ranks", "N", "start N ranks (default: as resource sets say, or 1)",
                      .take = take_ranks},
    [LAUNCH_HOSTS] = {"-H", "--hosts", "h1:N,h2:N", "start up to N ranks on each of these hosts",
                      .take = take_hosts},
    [LAUNCH_HOSTFILE] = {NULL, "--hostfile", "FILE", "the same from a file, with a line h1 slots=N for each",
                         .take = take_hosts},
    [LAUNCH_LAUNCHER] = {NULL, "--launcher", "auto|local|srun|jsrun|prterun|mpirun|agents",
                         "what starts the ranks (default: auto: srun in a Slurm job, jsrun in one of LSF, "
                         "prterun or mpirun for other hosts, otherwise hvdrun itself); agents: hvdrun itself "
                         "on each node of a Slurm job, for elastic jobs",
                         .take = take_launcher},
    [LAUNCH_JOIN] = {NULL, "--join", "HOST:PORT",
                     "start ranks here for an elastic job of agents whose hvdrun is there", .take = take_join,
                     .offset = FIELD(join)},
    [LAUNCH_DRY_RUN] = {NULL, "--dry-run", NULL, "print the command line of the launcher and start nothing",
                        .take = option_take_flag, .offset = FIELD(dry_run)},
    [LAUNCH_VERBOSE] = {"-v", "--verbose", NULL, "say which launcher was chosen, and why",
                        .take = option_take_flag, .offset = FIELD(verbose)},
    [LAUNCH_MAX_RESTARTS] = {NULL, "--max-restarts", "N",
                             "start all ranks again after a failure, up to N times (default: 0); with "
                             "--min-np only the rank that failed, N times each",
                             .take = take_max_restarts},
    [LAUNCH_MIN_NP] = {NULL, "--min-np", "N",
                       "go on after a rank failed, as long as N are left (default: end all ranks)",
                       .take = take_number, .offset = FIELD(fewest)},
    [LAUNCH_MAX_NP] = {NULL, "--max-np", "N",
                       "let an elastic job grow to N ranks when hosts have more slots (default: as many as "
                       "it begins with)",
                       .take = take_number, .offset = FIELD(most)},
    [LAUNCH_DISCOVERY] = {NULL, "--host-discovery", "SCRIPT",
                          "run this shell command every second: its lines HOST or HOST:N say how many slots "
                          "an elastic job has",
                          .take = option_take_text, .offset = FIELD(discovery)},
    [LAUNCH_DISCOVERY_SCRIPT] = {NULL, "--host-discovery-script", "SCRIPT", "the same as --host-discovery",
                                 .take = option_take_text, .offset = FIELD(discovery)},
    [LAUNCH_SLOTS_PER_HOST] = {NULL, "--slots-per-host", "N",
                               "slots of hosts for which the script or file gives no number (default: 1)",
                               .take = take_number, .offset = FIELD(slots_per_host)},
    [LAUNCH_ELASTIC_TIMEOUT] = {NULL, "--elastic-timeout", "TIME",
                                "how long an elastic job waits for ranks that it lacks (default: 10min)",
                                .take = take_time, .offset = FIELD(elastic_timeout_us),
                                .max = 1000 * HOUR_US},
    [LAUNCH_RESET_LIMIT] = {NULL, "--reset-limit", "N",
                            "end an elastic job whose ranks have changed more than N times (default: no "
                            "limit)",
                            .take = option_take_count, .offset = FIELD(reset_limit), .min = 1,
                            .max = RESET_LIMIT_MAX},
    [LAUNCH_HOST_COOLDOWN] = {NULL, "--host-cooldown", "LOW:HIGH",
                              "start ranks again that failed in an elastic job, but leave their host out "
                              "before, for LOW, then twice as long each time, up to HIGH",
                              .take = take_cooldown},
    [LAUNCH_HEALTH_CHECK] =
        {NULL, "--health-check", "COMMAND",
         "run this shell command on each host before ranks start there, which leave out a "
         "host where it does not exit with 0 within a minute",
         .take = option_take_text, .offset = FIELD(health_check)},
    [LAUNCH_GRACE] = {NULL, "--grace", "TIME", "wait TIME between SIGTERM and SIGKILL (default: 5s)",
                      .take = take_time, .offset = FIELD(grace_us), .max = GRACE_MAX_US},
    [LAUNCH_LINE_PREFIX] =
        {NULL, "--line-prefix", "TEMPLATE",
         "what is before each line of output, with ${rank}, ${local_rank} and ${role_name} "
         "in it (default: \"" LINE_PREFIX_DEFAULT "\")",
         .take = take_line_prefix},
    [LAUNCH_NO_PREFIX] = {NULL, "--no-prefix", NULL, "do not put the rank before each line of output",
                          .take = take_no_prefix},
    [LAUNCH_PTY] = {NULL, "--pty", "auto|on|off",
                    "is the ranks' output a pseudo-terminal (default: auto: unless --no-prefix sends it to a "
                    "file or pipe)",
                    .take = take_pty},
    [LAUNCH_TIMESTAMPS] = {NULL, "--timestamps", NULL, "put the time of day before each line of output",
                           .take = option_take_flag, .offset = FIELD(output.timestamps)},
    [LAUNCH_OUTPUT_DIR] = {NULL, "--output-dir", "DIR",
                           "also write each rank's output to DIR/rank.N.out and DIR/rank.N.err",
                           .take = option_take_text, .offset = FIELD(output.directory)},
    [LAUNCH_ONLY_RANK] = {NULL, "--only-rank", "LIST|none",
                          "show the output of these ranks alone, as in 0,4-7", .take = take_only_rank},
    [LAUNCH_RUN_ID] = {NULL, "--run-id", "ID",
                       "name the run, for the ranks, --events and --metrics (default: eight random digits)",
                       .take = option_take_text, .offset = FIELD(run_id)},
    [LAUNCH_EVENTS] = {NULL, "--events", "FILE|unix:PATH",
                       "write a line of JSON for each event of the job, as listed below",
                       .take = option_take_text, .offset = FIELD(events)},
    [LAUNCH_METRICS] = {NULL, "--metrics", "FILE",
                        "keep the metrics of the job in a file, in the text format of Prometheus",
                        .take = option_take_text, .offset = FIELD(metrics)},
    [LAUNCH_ENV] = {"-x", "--env", "NAME=VALUE", "set a variable for the ranks", .take = take_env},
    [LAUNCH_HELP] = {"-h", "--help", NULL, "show this and exit", .take = take_action},
    [LAUNCH_VERSION] = {"-V", "--version", NULL, "show the version and exit", .take = take_action},
    [LAUNCH_NP] = {NULL, "--np", "N", "the same as --ranks", .take = take_ranks},
    [LAUNCH_NRS] = {NULL, "--nrs", "N", "make N resource sets, and start the tasks of all as ranks",
                    .take = take_jsrun},
    [LAUNCH_TASKS] = {NULL, "--tasks_per_rs", "N", "tasks in each (default: 1)", .take = take_jsrun},
    [LAUNCH_CPUS] = {NULL, "--cpu_per_rs", "N|ALL_CPUS", "cores in each (default: 1)", .take = take_jsrun},
    [LAUNCH_GPUS] = {NULL, "--gpu_per_rs", "N|ALL_GPUS", "GPUs in each (default: 0)", .take = take_jsrun},
    [LAUNCH_PER_HOST] = {NULL, "--rs_per_host", "N", "divide the machine among N", .take = take_jsrun},
    [LAUNCH_BIND] = {NULL, "--bind", "none|rs|packed:N", "cores of each task in its set (default: packed:1)",
                     .take = take_jsrun},
    [LAUNCH_DISTRIBUTION] = {NULL, "--launch_distribution", "packed|cyclic|plane:N",
                             "how ranks go round the sets (default: packed)", .take = take_jsrun},
    [LAUNCH_LATENCY] = {NULL, "--latency_priority", "LIST",
                        "of gpu-cpu, cpu-mem, cpu-cpu: what is to be near", .take = take_jsrun},
    [LAUNCH_ERF] = {NULL, "--erf_input", "FILE", "an explicit resource file: the ranks, and where each runs",
                    .take = option_take_text, .offset = FIELD(erf)},
    [LAUNCH_NPROC] = {NULL, "--nproc-per-node", "N",
                      "the same as --ranks; with --launcher=agents the ranks of each node",
                      .take = take_ranks},
    [LAUNCH_NNODES] = {NULL, "--nnodes", "N|MIN:MAX",
                       "of how many nodes agents use the ranks of --nproc-per-node; without agents 1",
                       .take = torchrun_take_nodes},
    [LAUNCH_NODE_RANK] = {NULL, "--node-rank", "0", "not needed", .take = torchrun_take_node_rank},
    [LAUNCH_RDZV_ID] = {NULL, "--rdzv-id", "ID", "the same as --run-id", .take = option_take_text,
                        .offset = FIELD(run_id)},
    [LAUNCH_RDZV_BACKEND] = {NULL, "--rdzv-backend", "NAME", "not needed: ranks find each other",
                             .take = torchrun_take_unneeded},
    [LAUNCH_RDZV_ENDPOINT] = {NULL, "--rdzv-endpoint", "HOST:PORT", "not needed, likewise",
                              .take = torchrun_take_unneeded},
    [LAUNCH_STANDALONE] = {NULL, "--standalone", NULL, "not needed, likewise",
                           .take = torchrun_take_unneeded},
    [LAUNCH_MONITOR_INTERVAL] = {NULL, "--monitor-interval", "SECONDS",
                                 "not needed: hvdrun sees at once that a rank has ended",
                                 .take = torchrun_take_unneeded},
    [LAUNCH_ROLE] = {NULL, "--role", "NAME", "ROLE_NAME of the ranks (default: default)",
                     .take = option_take_text, .offset = FIELD(output.line_prefix.role)},
    [LAUNCH_LOG_DIR] = {NULL, "--log-dir", "DIR", "the same as --output-dir", .take = option_take_text,
                        .offset = FIELD(output.directory)},
    [LAUNCH_TEE] = {NULL, "--tee", "3", "not needed: --log-dir shows the output too",
                    .take = torchrun_take_streams},
    [LAUNCH_REDIRECTS] = {NULL, "--redirects", "3", "the same as --only-rank=none, with --log-dir",
                          .take = torchrun_take_streams, .offset = FIELD(output.only)},
    [LAUNCH_LOCAL_RANKS_FILTER] = {NULL, "--local-ranks-filter", "LIST", "the same as --only-rank",
                                   .take = take_only_rank},
    [LAUNCH_MODULE] = {"-m", "--module", NULL, "the command is a module: start it by python3 -m",
                       .take = option_take_flag, .offset = FIELD(module)},
    [LAUNCH_NO_PYTHON] = {NULL, "--no-python", NULL, "not needed: the command is a program",
                          .take = torchrun_take_unneeded},
#undef FIELD
};

/* ---- The command line ---------------------------------------------------------------------------- */

/* The options of hvd begin with --hvd-, which is easily forgotten. */
static int unknown(struct options_reader *reader, const char *word)
{
    char name[64], own[64] = "", hint[NEAREST_HINT_BYTES];
    struct nearest nearest = {.word = name};
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    if (strcmp(name, "--hvd") == 0)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "%.100s is an option of srun; hvdrun always uses hvd: leave it out", word);
    const char *here = spelling_here(name);
    if (here != NULL)
        return error_set(reader->err, HVD_ERR_INVALID, "unknown option %.100s; %s", word, here);
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
    int status = option_value(&reader->at, attached, where, expected, &value, reader->err);
    if (status == HVD_OK)
        status = option_parse(option, where, value, NULL, reader->err);
    if (status == HVD_OK)
        status = config_list_add(reader->options->cli, option, value, reader->err);
    reader->options->rs_given = reader->options->rs_given || option == OPTION_OF(rs);
    return status;
}

/* Options may be -n 4 and -n4, and -np 4 for users of mpirun. */
static int read_word(struct options_reader *reader, const char *word)
{
    struct option_given given;
    if (strncmp(word, "--hvd-", strlen("--hvd-")) == 0)
        return read_hvd(reader, word);
    int status = option_read(launch_table, LAUNCH_COUNT, strcmp(word, "-np") == 0 ? "--np" : word,
                             &reader->at, &given, reader->err);
    if (status == HVD_ERR_UNSUPPORTED)
        return unknown(reader, word);
    if (status != HVD_OK)
        return status;
    reader->options->values[given.option - launch_table] = given.value;
    return given.option->take(reader->options, &given, reader->err);
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
    if (reader->options->sets_from == NULL)
        return HVD_OK;
    if (reader->options->rs_given)
        return error_set(reader->err, HVD_ERR_INVALID,
                         "%s and --hvd-rs both say what resource sets are; give all of it to one of them",
                         reader->options->sets_from);
    reader->options->sets.given = true;
    if (rs_text(&reader->options->sets, text)[0] == 0) /* every option has its default value */
        snprintf(text, sizeof(text), "tasks:1");
    return config_list_add(reader->options->cli, OPTION_OF(rs), text, reader->err);
}

static int check_erf(const struct options_reader *reader)
{
    const struct hvdrun_options *options = reader->options;
    const char *other = options->ranks_from != NULL  ? options->ranks_from
                        : options->sets_from != NULL ? options->sets_from
                        : options->rs_given          ? "--hvd-rs"
                                                     : NULL;
    if (options->erf == NULL || other == NULL)
        return HVD_OK;
    return error_set(reader->err, HVD_ERR_INVALID,
                     "--erf_input and %s: an explicit resource file says itself which ranks there are and "
                     "where; leave %s out",
                     other, other);
}

/* ---- Elastic jobs ---------------------------------------------------------------------------- */

/* An option that is there for elastic jobs alone, or for their hosts. */
static int check_elastic_is_asked(const struct hvdrun_options *options, struct hvd_error *err)
{
    static const enum launch_option ids[] = {LAUNCH_ELASTIC_TIMEOUT, LAUNCH_RESET_LIMIT,
                                             LAUNCH_HOST_COOLDOWN};
    for (size_t i = 0; options->fewest == 0 && i < sizeof(ids) / sizeof(ids[0]); i++)
        if (hvdrun_option_given(options, ids[i]))
            return error_set(err, HVD_ERR_INVALID,
                             "%s: that is for elastic jobs alone; give --min-np too, or leave it out",
                             launch_table[ids[i]].name);
    if (options->cooldown.low_us > 0 && options->max_restarts > 0)
        return error_set(err, HVD_ERR_INVALID,
                         "--host-cooldown and --max-restarts both say when a rank starts again; leave one of "
                         "them out");
    if (hvdrun_option_given(options, LAUNCH_SLOTS_PER_HOST) && options->discovery == NULL &&
        options->values[LAUNCH_HOSTFILE] == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "--slots-per-host: no --host-discovery or --hostfile names hosts; give one of them, "
                         "or leave it out");
    return HVD_OK;
}

static int check_growth(const struct hvdrun_options *options, struct hvd_error *err)
{
    const char *growth = options->discovery != NULL ? "--host-discovery" : "--max-np";
    bool grows = options->discovery != NULL || options->most > 0;
    const char *other = options->app_count > 1 ? "several programs"
                        : options->erf != NULL ? "--erf_input"
                                               : NULL;
    if (grows && other != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%s and %s: which program or resources ranks get that join later is not known; "
                         "leave one of the two out",
                         growth, other);
    if (options->discovery != NULL &&
        (options->values[LAUNCH_HOSTS] != NULL || options->values[LAUNCH_HOSTFILE] != NULL))
        return error_set(err, HVD_ERR_INVALID,
                         "--host-discovery and %s both name hosts; leave one of them out",
                         options->values[LAUNCH_HOSTS] != NULL ? "-H" : "--hostfile");
    return HVD_OK;
}

/* Agents are for jobs that go on without one of them. */
static int check_agents(const struct hvdrun_options *options, struct hvd_error *err)
{
    if (options->launcher != LAUNCHER_AGENTS)
        return HVD_OK;
    if (options->fewest == 0)
        return error_set(err, HVD_ERR_INVALID,
                         "--launcher=agents is for elastic jobs; give --min-np too, or --launcher=srun");
    const char *other = options->app_count > 1 ? "several programs"
                        : options->erf != NULL ? "--erf_input"
                        : line_prefix_names_local_rank(options->output.line_prefix.template)
                            ? "${local_rank} in --line-prefix"
                            : NULL;
    if (other != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "--launcher=agents and %s: which ranks are on which node is not known before; leave "
                         "one of the two out",
                         other);
    return HVD_OK;
}

/* Without --min-np a job that may grow needs all ranks of its start. */
static int check_elastic(struct hvdrun_options *options, struct hvd_error *err)
{
    if (options->fewest == 0 && (options->most > 0 || options->discovery != NULL))
        options->fewest = options->ranks > 0 ? options->ranks : 1;
    int status = check_elastic_is_asked(options, err);
    if (status == HVD_OK)
        status = check_growth(options, err);
    if (status == HVD_OK && options->most > 0 && options->most < options->ranks)
        status =
            error_set(err, HVD_ERR_INVALID, "--max-np %d: the job begins with %d ranks; expected %d or more",
                      options->most, options->ranks, options->ranks);
    if (status == HVD_OK && options->most > 0 && options->most < options->fewest)
        status = error_set(err, HVD_ERR_INVALID, "--max-np %d: --min-np is %d; expected %d or more",
                           options->most, options->fewest, options->fewest);
    return status == HVD_OK ? check_agents(options, err) : status;
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
    *app = (struct hvdrun_app){.ranks = options->ranks, .command = reader->at, .is_module = options->module};
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
        options->ranks_from = "a colon";
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

static int check_prefix(const struct hvdrun_options *options, struct hvd_error *err)
{
    if (options->output.timestamps && !options->output.prefix)
        return error_set(err, HVD_ERR_INVALID,
                         "--timestamps and --no-prefix: times go before the prefix; leave one of them out");
    if (hvdrun_option_given(options, LAUNCH_LINE_PREFIX) && !options->output.prefix)
        return error_set(err, HVD_ERR_INVALID,
                         "--line-prefix and --no-prefix: is there a prefix? Leave one of them out");
    return HVD_OK;
}

int hvdrun_options_parse(struct hvdrun_options *options, char *const *argv, const char *inherited_cli,
                         struct hvd_error *err)
{
    struct options_reader reader = {.at = argv[0] == NULL ? argv : argv + 1, .options = options, .err = err};
    *options =
        (struct hvdrun_options){.action = HVDRUN_RUN,
                                .grace_us = 5000000,
                                .slots_per_host = 1,
                                .elastic_timeout_us = ELASTIC_TIMEOUT_US,
                                .output = {.prefix = true, .line_prefix = {LINE_PREFIX_DEFAULT, "default"}}};
    rs_init(&options->sets);
    int status = inherit(options, inherited_cli, err);
    while (status == HVD_OK && *reader.at != NULL && (*reader.at)[0] == '-' && (*reader.at)[1] != 0) {
        const char *word = *reader.at++;
        if (strcmp(word, "--") == 0)
            break;
        status = read_word(&reader, word);
        if (status == HVD_OK && options->action != HVDRUN_RUN)
            return HVD_OK;
    }
    if (status == HVD_OK)
        status = check_prefix(options, err);
    if (status == HVD_OK)
        status = read_programs(&reader);
    if (status == HVD_OK)
        status = torchrun_check(options, err);
    if (status == HVD_OK)
        status = check_erf(&reader);
    if (status == HVD_OK)
        status = check_elastic(options, err);
    return status == HVD_OK ? add_rs_to_cli(&reader) : status;
}

#define MODULE_WORDS 2 /* before the name of a module */

int hvdrun_app_words(const struct hvdrun_app *app)
{
    return app->word_count + (app->is_module ? MODULE_WORDS : 0);
}

char *hvdrun_app_word(const struct hvdrun_app *app, int i)
{
    static char python[] = "python3", option[] = "-m";
    static char *const start[MODULE_WORDS] = {python, option};
    if (!app->is_module)
        return app->command[i];
    return i < MODULE_WORDS ? start[i] : app->command[i - MODULE_WORDS];
}

const char *hvdrun_option_name(enum launch_option id)
{
    return launch_table[id].name;
}

bool hvdrun_option_given(const struct hvdrun_options *options, enum launch_option id)
{
    return options->values[id] != NULL;
}

bool hvdrun_options_watch_hostfile(const struct hvdrun_options *options)
{
    return options->fewest > 0 && options->values[LAUNCH_HOSTFILE] != NULL;
}

int hvdrun_options_check_only_rank(const struct hvdrun_options *options, int ranks, struct hvd_error *err)
{
    int beyond = bitmap_find_next(&options->output.ranks, ranks);
    if (!options->output.only || beyond < 0)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_INVALID,
        "--only-rank names rank %d, but the job has %d rank%s, counted from 0; name ranks that it "
        "has, or none",
        beyond, ranks, ranks == 1 ? "" : "s");
}

static void print_option(FILE *to, const char *spelling, const char *help, const char *def)
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
        if (id == LAUNCH_NP)
            fprintf(to, "\nOptions of jsrun: resource sets, of which the ranks are the tasks:\n");
        if (id == LAUNCH_NPROC)
            fprintf(to, "\nOptions of torchrun:\n");
        snprintf(spelling, sizeof(spelling), "%s", launch_table[id].letter == NULL ? "    " : "");
        tool_option_spelling(&launch_table[id], spelling + strlen(spelling),
                             sizeof(spelling) - strlen(spelling));
        print_option(to, spelling, launch_table[id].help, "");
    }
    fprintf(to, "\nOptions for the ranks; --hvd-NAME=VALUE or --hvd-NAME VALUE:\n");
    for (int i = 0; i < option_count; i++) {
        const struct hvd_option *option = &option_table[i];
        if (option->retired != NULL)
            continue;
        memcpy(spelling, "    ", 4);
        option_spelling(option, spelling + 4, sizeof(spelling) - 4);
        print_option(to, spelling, option->help, option->def);
    }
    launch_events_help(to);
}
