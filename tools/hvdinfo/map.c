/* map.c: hvdinfo map: show the cores, memory, GPUs and NICs that each task of a node gets. */
#include "config.h"
#include "tools/hvdinfo/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "options/config.h"
#include "options/parse.h"
#include "options/token.h"
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

static void warn(const char *sentence)
{
    fprintf(stderr, "hvdinfo: warning: %s\n", sentence);
}

static void note(const char *sentence)
{
    fprintf(stderr, "hvdinfo: note: %s\n", sentence);
}

/* ---- Options ---------------------------------------------------------------------------------- */

static int take_text(const char **to, const char *value, const char **whyp)
{
    *whyp = "is empty";
    if (value[0] == 0)
        return -1;
    *to = value;
    return 0;
}

static int take_topology(struct map_options *options, const char *value, const char **whyp)
{
    return take_text(&options->topology, value, whyp);
}

static int take_tasks(struct map_options *options, const char *value, const char **whyp)
{
    int64_t count;
    if (parse_count(value, &count, whyp) < 0)
        return -1;
    *whyp = count < 1 ? "is too small" : "is too large";
    if (count < 1 || count > PLAN_MAX_TASKS)
        return -1;
    options->tasks = (int)count;
    return 0;
}

static int take_bind(struct map_options *options, const char *value, const char **whyp)
{
    return bind_parse(value, &options->config.bind, whyp);
}

static int take_rs(struct map_options *options, const char *value, const char **whyp)
{
    return rs_parse(value, &options->config.rs, whyp);
}

static int take_gpus(struct map_options *options, const char *value, const char **whyp)
{
    return take_text(&options->gpus, value, whyp);
}

static int take_cpus(struct map_options *options, const char *value, const char **whyp)
{
    *whyp = "is empty";
    if (value[0] == 0 || bitmap_parse(value, &options->cpus, whyp) < 0)
        return -1;
    options->has_cpus = true;
    return 0;
}

static int take_svg(struct map_options *options, const char *value, const char **whyp)
{
    return take_text(&options->svg, value, whyp);
}

static const struct map_option {
    const char *name;     /* up to the '=' */
    const char *expected; /* for the message, or NULL if parsing returns its own */
    int (*take)(struct map_options *options, const char *value, const char **whyp);
} known_options[] = {
    {"--topology=", "a file that lstopo or hwloc has exported as XML", take_topology},
    {"--tasks=", "1 to 8192 tasks", take_tasks},
    {"--bind=", bind_expected, take_bind},
    {"--rs=", rs_expected, take_rs},
    {"--gpus=", "none, or PCI ids or numbers of GPUs with commas between", take_gpus},
    {"--cpus=", "a list of CPUs such as 0-3,64-67", take_cpus},
    {"--svg=", "a file, or - for standard output", take_svg},
};
_Static_assert(PLAN_MAX_TASKS == 8192, "the sentence says so");

static int take_option(struct map_options *options, const char *argument, struct hvd_error *err)
{
    const char *why = "";
    if (strcmp(argument, "--json") == 0) {
        options->json = true;
        return HVD_OK;
    }
    if (strcmp(argument, "--erf") == 0) {
        options->erf = true;
        return HVD_OK;
    }
    for (size_t i = 0; i < sizeof(known_options) / sizeof(known_options[0]); i++) {
        size_t length = strlen(known_options[i].name);
        if (strncmp(argument, known_options[i].name, length) != 0)
            continue;
        if (known_options[i].take(options, argument + length, &why) < 0)
            return error_set(err, HVD_ERR_INVALID, "map: %.100s: the value %s; expected %s", argument, why,
                             known_options[i].expected);
        return HVD_OK;
    }
    return error_set(
        err, HVD_ERR_INVALID,
        "map: %.100s: expected --topology=FILE, --tasks=N, --bind=POLICY, --rs=SET, --gpus=LIST, "
        "--cpus=LIST, --json, --erf or --svg=FILE",
        argument);
}

static int take_options(struct map_options *options, char *const *arguments, struct hvd_error *err)
{
    int rc = config_load(&options->config, environ, warn, err);
    for (int i = 0; rc == HVD_OK && arguments[i] != NULL; i++)
        rc = take_option(options, arguments[i], err);
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

static int show(const struct map_options *options, const struct machine *machine, const struct plan *plan,
                struct hvd_error *err)
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
        rc = show(options, machine, plan, &err);
    if (rc != HVD_OK)
        fprintf(stderr, "hvdinfo: %s\n", err.text);
    plan_destroy(plan);
    machine_destroy(machine);
    free(options);
    return rc == HVD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
