/* jsrun.c: the command line of LSF's jsrun, and the explicit resource file that says where each rank runs. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tools/hvdrun/launcher/line.h"
#include "topo/erf.h"

#define FILE_PLACE "resources.erf" /* what --dry-run calls the file */

/* ---- The explicit resource file --------------------------------------------------------------- */

/* A node as far as its slots, which are cores, and the hardware threads of a core describe it. */
struct node_kind {
    int slots, ranks;
    struct machine machine;
    struct plan plan;
};

/* Even shares of the cores; where there are more ranks than cores, ranks share one. */
static void share_cores(struct node_kind *kind, int threads)
{
    for (int rank = 0; rank < kind->ranks; rank++) {
        int first = kind->ranks > kind->slots ? rank % kind->slots : rank * kind->slots / kind->ranks;
        int end = kind->ranks > kind->slots ? first + 1 : (rank + 1) * kind->slots / kind->ranks;
        for (int cpu = first * threads; cpu < end * threads; cpu++)
            bitmap_set(&kind->plan.tasks[rank].cpus, cpu);
    }
}

static void free_kinds(struct node_kind *kinds, int count)
{
    for (int i = 0; kinds != NULL && i < count; i++) {
        free(kinds[i].machine.cores);
        free(kinds[i].plan.tasks);
    }
    free(kinds);
}

static int make_kind(struct node_kind *kind, const struct host *host, int threads, struct hvd_error *err)
{
    if ((int64_t)host->slots * threads > BITMAP_BITS)
        return error_set(
            err, HVD_ERR_INVALID,
            "host %s has %d slots with %d hardware threads each; expected at most %d threads in a host",
            host->name, host->slots, threads, BITMAP_BITS);
    kind->slots = host->slots;
    kind->ranks = host->ranks;
    kind->machine.core_count = host->slots;
    kind->machine.cores = calloc((size_t)host->slots, sizeof(*kind->machine.cores));
    kind->plan.task_count = host->ranks;
    kind->plan.tasks = calloc((size_t)host->ranks + 1, sizeof(*kind->plan.tasks));
    if (kind->machine.cores == NULL || kind->plan.tasks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d ranks", host->ranks);
    for (int i = 0; i < host->slots; i++) {
        kind->machine.cores[i].cpu_count = threads;
        for (int k = 0; k < threads; k++)
            kind->machine.cores[i].cpus[k] = i * threads + k;
    }
    share_cores(kind, threads);
    return HVD_OK;
}

/* The kind of [host]; most hosts of a job are of one kind, and so share its plan. */
static struct node_kind *find_kind(struct node_kind *kinds, int count, const struct host *host)
{
    for (int i = 0; i < count; i++) {
        if (kinds[i].slots == host->slots && kinds[i].ranks == host->ranks)
            return &kinds[i];
    }
    return NULL;
}

static int write_file(struct launch_line *line, const struct host_list *hosts, int threads,
                      struct hvd_error *err)
{
    struct node_kind *kinds = calloc((size_t)hosts->count, sizeof(*kinds));
    struct erf_plan *plans = calloc((size_t)hosts->count, sizeof(*plans));
    int kind_count = 0;
    int status = kinds == NULL || plans == NULL
                     ? error_set(err, HVD_ERR_NO_MEMORY, "no memory to place ranks on %d hosts", hosts->count)
                     : HVD_OK;
    for (int i = 0; status == HVD_OK && i < hosts->count; i++) {
        struct node_kind *kind = find_kind(kinds, kind_count, &hosts->hosts[i]);
        if (kind == NULL) {
            kind = &kinds[kind_count++];
            status = make_kind(kind, &hosts->hosts[i], threads, err);
        }
        plans[i] = (struct erf_plan){hosts->hosts[i].name, &kind->machine, &kind->plan};
    }
    if (status == HVD_OK)
        status = erf_from_plans(plans, hosts->count, &line->resource_file, err);
    free_kinds(kinds, kind_count);
    free(plans);
    return status;
}

static int add_file(struct launch_line *line, const struct line_request *request, struct hvd_error *err)
{
    if (request->hosts.count == 0)
        return error_set(
            err, HVD_ERR_INVALID,
            "the hosts of the LSF job are not known: LSB_MCPU_HOSTS names none beside the launch "
            "node, which comes first; give -H, or options of jsrun such as --nrs");
    if (request->ranks == 0)
        return error_set(
            err, HVD_ERR_INVALID,
            "how many ranks is not said, and LSF tells only how many cores there are; give -n N, or "
            "options of jsrun such as --nrs");
    int status = write_file(line, &request->hosts, request->threads, err);
    if (status != HVD_OK)
        return status;
    words_add(&line->words, "--erf_input");
    line->resource_word = line->words.count;
    words_add(&line->words, FILE_PLACE);
    return HVD_OK;
}

/* ---- The command line -------------------------------------------------------------------------- */

/* The last of jsrun's own options that was given, or NULL. */
static const char *own_option(const struct hvdrun_options *options)
{
    const char *name = NULL;
    for (int id = LAUNCH_NRS; id <= LAUNCH_ERF; id++) {
        if (options->values[id] != NULL)
            name = hvdrun_option_name((enum launch_option)id);
    }
    return name;
}

/* Pass jsrun's own options on as they were given. */
static bool add_own_options(struct words *words, const struct hvdrun_options *options)
{
    bool any = false;
    for (int id = LAUNCH_NRS; id < LAUNCH_ERF; id++) {
        if (options->values[id] == NULL)
            continue;
        words_add(words, "%s", hvdrun_option_name((enum launch_option)id));
        words_add(words, "%s", options->values[id]);
        any = true;
    }
    if (any && options->ranks > 0) {
        words_add(words, "--np");
        words_add(words, "%d", options->ranks);
    }
    return any;
}

static void add_output(struct words *words, const struct hvdrun_options *options)
{
    if (line_is_to_files(options)) {
        words_add(words, "--stdio_stdout");
        words_add(words, "%s/rank.%%t.out", options->output.directory);
        words_add(words, "--stdio_stderr");
        words_add(words, "%s/rank.%%t.err", options->output.directory);
    } else if (options->output.prefix) {
        words_add(words, "--stdio_mode");
        words_add(words, "prepended");
    }
}

int jsrun_line(struct launch_line *line, const struct line_request *request, struct hvd_error *err)
{
    struct words *words = &line->words;
    const struct hvdrun_options *options = request->options;
    int status = HVD_OK;
    if (options->output.only && !line_is_to_files(options))
        return error_set(
            err, HVD_ERR_INVALID,
            "jsrun cannot honour --only-rank: it shows the output of all ranks; leave the option out, "
            "or add --output-dir to --only-rank=none");
    if (request->hosts_given && own_option(options) != NULL)
        return error_set(
            err, HVD_ERR_INVALID,
            "-H and %s: jsrun itself shares its resource sets out among the hosts of the job; leave "
            "one of the two out",
            own_option(options));
    if (options->erf != NULL) {
        words_add(words, "--erf_input");
        words_add(words, "%s", options->erf);
    } else if (!add_own_options(words, options)) {
        status = add_file(line, request, err);
    }
    words_add(words, "--exit_on_error"); /* a rank that fails ends the others */
    words_add(words, "1");
    add_output(words, options);
    if (status == HVD_OK && options->app_count == 1 && options->apps[0].command[0][0] == '-')
        status =
            error_set(err, HVD_ERR_INVALID,
                      "jsrun takes %.100s for an option of its own; write the program's path, as in ./%.100s",
                      options->apps[0].command[0], options->apps[0].command[0]);
    line_add_program(line, request, "JSM_NAMESPACE_RANK");
    return status;
}
