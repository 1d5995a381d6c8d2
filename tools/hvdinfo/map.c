/* map.c: hvdinfo map: show the cores, memory, GPUs and NICs that each task of a node gets. */
#include "config.h"
#include "tools/hvdinfo/commands.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "options/config.h"
#include "options/parse.h"
#include "options/token.h"
#include "tools/common/option_reader.h"
#include "tools/hvdinfo/map_svg.h"
#include "tools/hvdinfo/map_text.h"
#include "topo/erf.h"
#include "topo/node_placement.h"

#define WIDTH_MIN     80
#define WIDTH_DEFAULT 100 /* if stdout is not a terminal */

/* The command line. */
struct map_options {
    struct hvd_config config; /* bind, rs and nics: given here, or the options in force */
    const char *topology;     /* NULL: this node */
    const char *gpus;         /* NULL: all that are visible */
    const char *svg;          /* NULL: no picture; "-": stdout */
    bool json, erf;
    bool has_cpus;
    struct bitmap cpus;
    int tasks; /* 0: not given */
};

static void note(const char *sentence)
{
    fprintf(stderr, "hvdinfo: note: %s\n", sentence);
}

/* ---- Options ---------------------------------------------------------------------------------- */

static int refuse_value(const struct option_given *given, const char *why, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_INVALID, "map: %s=%.100s: the value %s; expected %s", given->where,
                     given->value, why, given->option->help);
}

static int take_text(void *to, const struct option_given *given, struct hvd_error *err)
{
    return given->value[0] == 0 ? refuse_value(given, "is empty", err) : option_take_text(to, given, err);
}

static int take_tasks(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct map_options *options = to;
    int64_t count = 0;
    const char *why = NULL;
    if (parse_count(given->value, &count, &why) == 0 && (count < 1 || count > PLAN_MAX_TASKS))
        why = count < 1 ? "is too small" : "is too large";
    options->tasks = (int)count;
    return why == NULL ? HVD_OK : refuse_value(given, why, err);
}

static int take_bind(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct map_options *options = to;
    const char *why = "";
    return bind_parse(given->value, &options->config.bind, &why) == 0 ? HVD_OK
                                                                      : refuse_value(given, why, err);
}

static int take_rs(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct map_options *options = to;
    const char *why = "";
    return rs_parse(given->value, &options->config.rs, &why) == 0 ? HVD_OK : refuse_value(given, why, err);
}

static int take_cpus(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct map_options *options = to;
    const char *why = "is empty";
    options->has_cpus = true;
    return given->value[0] != 0 && bitmap_parse(given->value, &options->cpus, &why) == 0
               ? HVD_OK
               : refuse_value(given, why, err);
}

#define FIELD(name) offsetof(struct map_options, name)
static const struct tool_option map_option_table[] = {
    {NULL, "--topology", "FILE", "a file that lstopo or hwloc has exported as XML", take_text,
     FIELD(topology), 0, 0},
    {NULL, "--tasks", "N", "1 to 8192 tasks", take_tasks, 0, 0, 0},
    {NULL, "--bind", "POLICY", bind_expected, take_bind, 0, 0, 0},
    {NULL, "--rs", "SET", rs_expected, take_rs, 0, 0, 0},
    {NULL, "--gpus", "LIST", "none, or PCI ids or numbers of GPUs with commas between", take_text,
     FIELD(gpus), 0, 0},
    {NULL, "--cpus", "LIST", "a list of CPUs such as 0-3,64-67", take_cpus, 0, 0, 0},
    {NULL, "--svg", "FILE", "a file, or - for standard output", take_text, FIELD(svg), 0, 0},
    {NULL, "--json", NULL, "JSON in place of the table", option_take_flag, FIELD(json), 0, 0},
    {NULL, "--erf", NULL, "an explicit resource file in place of the table", option_take_flag, FIELD(erf), 0,
     0},
};
#undef FIELD
_Static_assert(PLAN_MAX_TASKS == 8192, "the sentence says so");

/* Read the option at *atp. */
static int take_option(struct map_options *options, char *const **atp, struct hvd_error *err)
{
    struct option_given given;
    const char *word = *(*atp)++;
    int count = sizeof(map_option_table) / sizeof(map_option_table[0]);
    int rc = option_read(map_option_table, count, word, atp, &given, err);
    if (rc == HVD_OK)
        return given.option->take(options, &given, err);
    if (rc != HVD_ERR_UNSUPPORTED)
        return rc;
    return error_set(
        err, HVD_ERR_INVALID,
        "map: %.100s: expected --topology=FILE, --tasks=N, --bind=POLICY, --rs=SET, --gpus=LIST, "
        "--cpus=LIST, --json, --erf or --svg=FILE",
        word);
}

static int take_options(struct map_options *options, char *const *arguments, struct hvd_error *err)
{
    int rc = config_load(&options->config, environ, hvdinfo_warn, err);
    while (rc == HVD_OK && *arguments != NULL)
        rc = take_option(options, &arguments, err);
    if (rc == HVD_OK && options->json && options->erf)
        rc = error_set(err, HVD_ERR_INVALID, "map: --json and --erf: expected one of them");
    if (rc == HVD_OK && (options->json || options->erf) && options->svg != NULL &&
        strcmp(options->svg, "-") == 0)
        rc = error_set(err, HVD_ERR_INVALID,
                       "map: %s and --svg=- cannot both go to standard output; give a file, --svg=FILE",
                       options->json ? "--json" : "--erf");
    return rc;
}

/* ---- The machine ------------------------------------------------------------------------------ */

/* The granted GPUs, in the order in which programs number them. */
struct granted {
    int count;
    int gpus[MACHINE_MAX_GPUS];
};

static int add_gpu(const struct machine *machine, struct token entry, struct granted *granted,
                   struct hvd_error *err)
{
    char name[PCI_ID_BYTES] = "";
    const char *why;
    int gpu = -1;
    snprintf(name, sizeof(name), "%.*s", (int)entry.length, entry.text);
    if (token_parse_number(entry, 0, MACHINE_MAX_GPUS - 1, &gpu, &why) < 0)
        gpu = entry.length < sizeof(name) ? machine_find_gpu(machine, name) : -1;
    if (gpu < 0 || gpu >= machine->gpu_count)
        return error_set(
            err, HVD_ERR_INVALID,
            "map: --gpus: there is no GPU %s%s on this machine, which has %d; expected none, or PCI "
            "ids or numbers from 0 with commas between",
            name, entry.length < sizeof(name) ? "" : "...", machine->gpu_count);
    for (int i = 0; i < granted->count; i++)
        if (granted->gpus[i] == gpu)
            return error_set(err, HVD_ERR_INVALID, "map: --gpus: GPU %s is given twice", name);
    granted->gpus[granted->count++] = gpu;
    return HVD_OK;
}

static int grant_listed(const struct machine *machine, const char *list, struct granted *granted,
                        struct hvd_error *err)
{
    struct token entry;
    int rc = HVD_OK;
    granted->count = 0;
    if (strcmp(list, "none") == 0)
        return HVD_OK;
    for (const char *at = list; rc == HVD_OK && at != NULL;) {
        at = token_next(at, ',', &entry);
        rc = add_gpu(machine, entry, granted, err);
    }
    return rc;
}

/* On this node, the GPUs that the environment lets programs see; of a recorded machine, all. */
static void grant_visible(const struct node_placement *here, const struct machine *machine,
                          struct granted *granted)
{
    struct visible_gpus visible;
    node_placement_find_gpus(here, machine, &visible);
    granted->count = visible.count;
    memcpy(granted->gpus, visible.gpus, sizeof(granted->gpus));
    if (!here->elsewhere && visible.advice[0] != 0)
        note(visible.advice);
}

/* ---- The plan --------------------------------------------------------------------------------- */

/* One task per granted GPU or, if there is none, per NUMA node with granted CPUs. */
static int default_tasks(const struct machine *machine, const struct plan_request *request)
{
    const struct bitmap *cpus = request->cpus != NULL ? request->cpus : &machine->allowed;
    int count = 0;
    if (request->gpu_count > 0)
        return request->gpu_count;
    for (int i = 0; i < machine->domain_count[DOMAIN_NUMA]; i++)
        count += bitmap_intersects(&machine->domains[DOMAIN_NUMA][i].cpus, cpus);
    return count > 0 ? count : 1;
}

static int place_tasks(const struct map_options *options, const struct node_placement *here,
                       const struct machine *machine, struct plan **planp, struct hvd_error *err)
{
    struct granted granted;
    struct plan_request request = {.task_count = options->tasks,
                                   .cpus = options->has_cpus ? &options->cpus : NULL,
                                   .bind = options->config.bind,
                                   .rs = options->config.rs.given ? &options->config.rs : NULL,
                                   .gpus = granted.gpus};
    int rc = HVD_OK;
    if (options->gpus != NULL)
        rc = grant_listed(machine, options->gpus, &granted, err);
    else
        grant_visible(here, machine, &granted);
    if (rc != HVD_OK)
        return rc;
    request.gpu_count = granted.count;
    if (request.task_count == 0)
        request.task_count = default_tasks(machine, &request);
    return plan_create(machine, &request, planp, err);
}

/* ---- Show it ---------------------------------------------------------------------------------- */

static int write_svg(const struct map_options *options, const struct machine *machine,
                     const struct plan *plan, struct hvd_error *err)
{
    bool to_stdout = strcmp(options->svg, "-") == 0;
    FILE *file = to_stdout ? stdout : fopen(options->svg, "we");
    if (file == NULL)
        return error_set_errno(err, "map: %.200s cannot be written", options->svg);
    int rc = map_svg(file, machine, plan, err);
    if (to_stdout)
        return rc;
    bool failed = ferror(file) != 0;
    if ((fclose(file) != 0 || failed) && rc == HVD_OK)
        rc = error_set_errno(err, "map: %.200s cannot be written", options->svg);
    return rc;
}

static int write_erf(const struct machine *machine, const struct plan *plan, struct hvd_error *err)
{
    struct erf_plan of = {machine->name[0] != 0 ? machine->name : "localhost", machine, plan};
    char *text = NULL;
    int rc = erf_from_plans(&of, 1, &text, err);
    if (rc == HVD_OK)
        fputs(text, stdout);
    free(text);
    return rc;
}

static int table_width(FILE *file)
{
    struct winsize size;
    if (!isatty(fileno(file)) || ioctl(fileno(file), TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return WIDTH_DEFAULT;
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

static int print_map(const struct map_options *options, const struct machine *machine,
                     const struct plan *plan, struct hvd_error *err)
{
    FILE *table = options->svg != NULL && strcmp(options->svg, "-") == 0 ? stderr : stdout;
    int rc = options->svg == NULL ? HVD_OK : write_svg(options, machine, plan, err);
    if (rc == HVD_OK && options->erf)
        rc = write_erf(machine, plan, err);
    if (rc != HVD_OK)
        return rc;
    if (options->json)
        map_json(stdout, plan);
    else if (!options->erf)
        map_table(table, machine, plan, table_width(table));
    if ((options->json || options->erf) && plan->note[0] != 0)
        note(plan->note);
    return HVD_OK;
}

int hvdinfo_map(char *const *arguments)
{
    struct map_options *options = calloc(1, sizeof(*options));
    struct hvd_error err = {""};
    struct node_placement here = {.task_count = 0};
    struct machine *machine = NULL;
    struct plan *plan = NULL;
    int rc = options == NULL ? error_set(&err, HVD_ERR_NO_MEMORY, "map: no memory for its options")
                             : take_options(options, arguments, &err);
    if (rc == HVD_OK) {
        here = (struct node_placement){.topology = options->topology,
                                       .elsewhere = options->topology != NULL,
                                       .nics = options->config.nics};
        rc = node_placement_load_machine(&here, &machine, &err);
    }
    if (rc == HVD_OK)
        rc = place_tasks(options, &here, machine, &plan, &err);
    if (rc == HVD_OK)
        rc = print_map(options, machine, plan, &err);
    if (rc != HVD_OK)
        fprintf(stderr, "hvdinfo: %s\n", err.text);
    plan_destroy(plan);
    machine_destroy(machine);
    free(options);
    return rc == HVD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
