/* ps.c: hvdinfo ps, top, metrics and stack: what the ranks of running jobs do, and for whom they wait. */
#include "config.h"
#include "tools/hvdinfo/commands.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/parse.h"
#include "tools/common/metrics_file.h"
#include "tools/common/option_reader.h"
#include "tools/hvdinfo/ps/dumps.h"
#include "tools/hvdinfo/ps/find.h"
#include "tools/hvdinfo/ps/frames.h"
#include "tools/hvdinfo/ps/judge.h"
#include "tools/hvdinfo/ps/nodes.h"
#include "tools/hvdinfo/ps/rank_metrics.h"
#include "tools/hvdinfo/ps/scrape.h"
#include "tools/hvdinfo/ps/show.h"
#include "tools/hvdinfo/ps/top.h"
#include "tools/hvdinfo/ps/torch_records.h"

/* Exit statuses; EXIT_SUCCESS: the ranks work. */
#define EXIT_STANDS_STILL 1
#define EXIT_NOTHING      2

#define STILL_US         INT64_C(5000000)
#define REPAINT_MS       1000
#define NODES_REPAINT_MS 5000 /* where an srun asks the nodes */

struct ps_options {
    const char *job;      /* NULL: all */
    const char *rank;     /* whose stack */
    const char *dump_dir; /* NULL: the ranks that run */
    const char *output;   /* NULL: standard output */
    const char *torch;    /* a folder; NULL: none */
    struct show_view view;
    bool json;
    bool node;    /* only this one */
    bool once;    /* of top: what ps prints */
    bool native;  /* calls of C, of a Python program too */
    bool encoded; /* for nodes.c of another node */
    int64_t still_us;
    int64_t fan_out;
    struct find_memory *memory; /* NULL: it looks once */
};

/* ---- Options ------------------------------------------------------------------------------------- */

static int take_time(void *to, const struct option_given *given, struct hvd_error *err)
{
    int64_t *us = (int64_t *)((char *)to + given->option->offset);
    const char *why = NULL;
    if (parse_time(given->value, us, &why) == 0)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID, "%s=%.100s: the value %s; expected a time such as 500ms or 10s",
                     given->where, given->value, why);
}

/* Each command takes some that stand together. */
#define FIELD(field) offsetof(struct ps_options, field)
static const struct tool_option option_table[] = {
    {NULL, "--output", "FILE|unix:PATH", "the file to write, or a socket to answer at", option_take_text,
     FIELD(output), 0, 0},
    {NULL, "--node", NULL, "look at this node only", option_take_flag, FIELD(node), 0, 0},
    {NULL, "--fan-out", "NODES", "how many nodes one of them asks", option_take_count, FIELD(fan_out), 1,
     RECORDS_NODES},
    {NULL, "--still-after", "TIME", "from when on a rank that waits stands still", take_time, FIELD(still_us),
     0, 0},
    {NULL, "--all", NULL, "a line for each rank", option_take_flag, FIELD(view.each), 0, 0},
    {NULL, "--once", NULL, "look once, as ps does", option_take_flag, FIELD(once), 0, 0},
    {NULL, "--json", NULL, "JSON in place of the text", option_take_flag, FIELD(json), 0, 0},
    {NULL, "--dump-dir", "DIR", "the records in this folder", option_take_text, FIELD(dump_dir), 0, 0},
    {NULL, "--torch", "DIR", "write the records there for torchfrtrace", option_take_text, FIELD(torch), 0,
     0},
    {NULL, "--encoded", NULL, "what another hvdinfo reads", option_take_flag, FIELD(encoded), 0, 0},
};
static const struct tool_option stack_option_table[] = {
    {NULL, "--native", NULL, "calls of C, of a Python program too", option_take_flag, FIELD(native), 0, 0},
    {NULL, "--node", NULL, "look at this node only", option_take_flag, FIELD(node), 0, 0},
    {NULL, "--encoded", NULL, "only the calls", option_take_flag, FIELD(encoded), 0, 0},
    {NULL, "--fan-out", "NODES", "how many nodes one of them asks", option_take_count, FIELD(fan_out), 1,
     RECORDS_NODES},
};
#undef FIELD

static const struct command {
    const char *name;
    const struct tool_option *options;
    int count; /* of these */
    bool takes_rank;
    bool needs_each; /* rank by itself, with all that is known of it */
    const char *expected;
} ps = {"ps", option_table + 1, 9,
        .expected = "one job, --all, --once, --json, --node, --dump-dir=DIR, --torch=DIR, --fan-out=NODES or "
                    "--still-after=TIME"},
  top = {"top", option_table + 1, 5,
         .expected = "one job, --all, --once, --node, --fan-out=NODES or --still-after=TIME"},
  metrics = {"metrics", option_table, 4, .needs_each = true,
             .expected = "one job, --node, --output=FILE|unix:PATH, --fan-out=NODES or --still-after=TIME"},
  stack = {"stack",
           stack_option_table,
           4,
           .takes_rank = true,
           .needs_each = true,
           .expected = "a job, one of its ranks, --native, --node or --fan-out=NODES"};

/* Returns where the next word goes that is no option, or NULL. */
static const char **next_word(struct ps_options *options, const struct command *command)
{
    if (options->job == NULL)
        return &options->job;
    return command->takes_rank && options->rank == NULL ? &options->rank : NULL;
}

static int take_word(struct ps_options *options, char *const **atp, const struct command *command,
                     struct hvd_error *err)
{
    struct option_given given;
    const char *word = *(*atp)++;
    const char **wordp = word[0] != '-' && word[0] != 0 ? next_word(options, command) : NULL;
    if (wordp != NULL) {
        *wordp = word;
        return HVD_OK;
    }
    int rc = option_read(command->options, command->count, word, atp, &given, err);
    if (rc == HVD_OK)
        return given.option->take(options, &given, err);
    if (rc != HVD_ERR_UNSUPPORTED)
        return rc;
    return error_set(err, HVD_ERR_INVALID, "%.100s: expected %s; hvdinfo %s --help says more", word,
                     command->expected, command->name);
}

static int take_options(struct ps_options *options, char *const *arguments, const struct command *command,
                        struct hvd_error *err)
{
    int rc = HVD_OK;
    *options = (struct ps_options){.still_us = STILL_US,
                                   .fan_out = NODES_FAN_OUT,
                                   .view = {.selected = -1, .each = command->needs_each}};
    while (rc == HVD_OK && *arguments != NULL)
        rc = take_word(options, &arguments, command, err);
    return rc;
}

/* ---- The commands -------------------------------------------------------------------------------- */

/* Ranks of a Slurm job that are elsewhere? Of one of which none is here, srun knows. */
static bool must_ask_nodes(const struct ps_options *options, const struct ranks *ranks)
{
    if (options->node || options->dump_dir != NULL || options->torch != NULL || options->job == NULL ||
        !nodes_is_job(options->job))
        return false;
    for (int i = 0, end = 0; i < ranks->count; i = end) {
        const struct rank *first = &ranks->list[i];
        for (end = i + 1; end < ranks->count && judge_same_job(first, &ranks->list[end]);)
            end++;
        if (strncmp(first->key, RANK_STEP_KEY, strlen(RANK_STEP_KEY)) == 0 && end - i < first->size)
            return true;
    }
    return ranks->count == 0;
}

static int judge(const struct ps_options *options, struct ranks *ranks, struct hvd_error *err)
{
    if (judge_ranks(ranks, options->still_us) == HVD_OK)
        return HVD_OK;
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the ranks of the job");
}

static int find_here(const struct ps_options *options, bool slurm, struct ranks *ranks, struct hvd_error *err)
{
    struct find_memory none = {0};
    int rc = find_ranks(options->job, slurm, options->memory == NULL ? &none : options->memory, ranks, err);
    find_memory_free(&none);
    return rc;
}

static int find_and_judge(const struct ps_options *options, struct ranks *ranks, struct hvd_error *err)
{
    int rc = options->dump_dir != NULL ? dumps_read(options->dump_dir, ranks, err)
                                       : find_here(options, false, ranks, err);
    return rc == HVD_OK ? judge(options, ranks, err) : rc;
}

/* Were other nodes asked, did some of them not answer, and are the ranks theirs? */
struct asked {
    bool nodes, silent, answered;
};

/* What is here, and what the job's other nodes know; only what is here where they cannot be asked. Where it
 * returns HVD_OK and not all have answered, [err] says so. */
static int find_on_all_nodes(const struct ps_options *options, struct ranks *ranks, struct asked *asked,
                             struct hvd_error *err)
{
    struct ranks all = {0};
    struct records records = {0};
    int rc = find_and_judge(options, ranks, err);
    if (rc != HVD_OK || !must_ask_nodes(options, ranks))
        return rc;
    const struct nodes_question question = {.job = options->job,
                                            .each = options->view.each || options->view.selected >= 0 ||
                                                    options->json,
                                            .wait_s = NODES_WAIT_S,
                                            .fan_out = options->fan_out};
    rc = nodes_ask(&question, &all, &records, err);
    asked->nodes = true;
    asked->silent = rc != HVD_OK || records.answered < records.asked;
    if (rc != HVD_OK && ranks->count > 0) {
        struct hvd_error why = *err;
        ranks_free(&all);
        return error_set(err, HVD_OK, "only the ranks of this node are shown: %s", why.text);
    }
    ranks_free(ranks);
    *ranks = all;
    asked->answered = true;
    if (rc == HVD_OK && asked->silent)
        error_set(err, HVD_OK, "%ld of %ld nodes did not answer: %s", records.asked - records.answered,
                  records.asked, records.silent);
    return rc == HVD_OK ? judge(options, ranks, err) : rc;
}

/* For nodes.c of another node. */
static int write_encoded(const struct ps_options *options, struct ranks *ranks, struct hvd_error *err)
{
    const struct nodes_question question = {.job = options->job,
                                            .each = options->view.each,
                                            .wait_s = NODES_WAIT_ON_S,
                                            .fan_out = options->fan_out};
    int64_t node = parse_count_or(environment_value(NULL, "SLURM_NODEID"), 0);
    struct records records = {.asked = 1, .answered = 1};
    int rc =
        options->node ? find_here(options, true, ranks, err) : nodes_ask_on(&question, ranks, &records, err);
    if (rc == HVD_OK && !options->view.each)
        rc = judge(options, ranks, err);
    if (rc == HVD_OK && records_write(stdout, ranks, options->view.each, node, &records) != HVD_OK)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for the ranks of this node");
    return rc;
}

static int show(const struct ps_options *options, const struct ranks *ranks, struct hvd_error *err)
{
    int rc = options->json ? show_json(stdout, ranks) : show_text(stdout, ranks, &options->view);
    return rc == HVD_OK ? rc : error_set(err, rc, "no memory for the ranks of this node");
}

static int exit_status(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->list[i].stands_still)
            return EXIT_STANDS_STILL;
    }
    return EXIT_SUCCESS;
}

static int fail(const char *command, const struct hvd_error *err)
{
    fflush(stdout);
    fprintf(stderr, "hvdinfo: %s: %s\n", command, err->text);
    return EXIT_NOTHING;
}

static void print_note(int rc, const char *command, const struct hvd_error *err)
{
    if (rc == HVD_OK && err->text[0] != 0)
        fprintf(stderr, "hvdinfo: %s: %s\n", command, err->text);
}

static int find_none(const struct ps_options *options, struct hvd_error *err)
{
    if (options->dump_dir != NULL)
        return error_set(err, HVD_ERR_STATE,
                         "the folder %.200s has no flight record; --hvd-dump-dir lets ranks write them there",
                         options->dump_dir);
    if (options->job == NULL)
        return error_set(err, HVD_ERR_STATE, "no rank of yours runs on this node");
    return error_set(err, HVD_ERR_STATE,
                     "no rank of the job %.100s runs on this node, or none that you may look at; hvdinfo ps "
                     "lists those of all your jobs",
                     options->job);
}

static int find_and_show(const struct ps_options *options, const char *command, struct ranks *ranks,
                         struct asked *asked, struct hvd_error *err)
{
    int rc = find_on_all_nodes(options, ranks, asked, err);
    print_note(rc, command, err);
    if (rc == HVD_OK && ranks->count == 0)
        rc = find_none(options, err);
    if (rc == HVD_OK && options->torch != NULL)
        rc = torch_records_write(options->torch, ranks, err);
    return rc == HVD_OK ? show(options, ranks, err) : rc;
}

static int look_once(const struct ps_options *options, const char *command)
{
    struct ranks ranks = {0};
    struct hvd_error err = {""};
    struct asked asked = {.silent = false};
    int rc = options->encoded ? write_encoded(options, &ranks, &err)
                              : find_and_show(options, command, &ranks, &asked, &err);
    int status = rc != HVD_OK       ? fail(command, &err)
                 : options->encoded ? EXIT_SUCCESS
                 : asked.silent     ? EXIT_STANDS_STILL
                                    : exit_status(&ranks);
    ranks_free(&ranks);
    return status;
}

int hvdinfo_ps(char *const *arguments)
{
    struct ps_options options;
    struct hvd_error err = {""};
    if (take_options(&options, arguments, &ps, &err) != HVD_OK)
        return fail("ps", &err);
    return look_once(&options, "ps");
}

/* An srun each time, so less often. */
static int find_for_top(const void *arg, struct ranks *ranks, int *wait_ms, struct hvd_error *err)
{
    const struct ps_options *options = arg;
    struct asked asked = {.nodes = false};
    bool first = *wait_ms == 0;
    int rc = find_on_all_nodes(options, ranks, &asked, err);
    *wait_ms = asked.nodes ? NODES_REPAINT_MS : REPAINT_MS;
    if (first && rc == HVD_OK && ranks->count == 0)
        return find_none(options, err);
    return !first && rc == HVD_ERR_STATE ? HVD_OK : rc; /* the job has ended */
}

int hvdinfo_top(char *const *arguments)
{
    struct ps_options options;
    struct hvd_error err = {""};
    int rc = take_options(&options, arguments, &top, &err);
    if (rc == HVD_OK && options.once)
        return look_once(&options, "top");
    if (rc == HVD_OK)
        rc = top_run(find_for_top, &options, &options.view, &err);
    return rc == HVD_OK ? EXIT_SUCCESS : fail("top", &err);
}

static void write_metrics(FILE *to, const void *arg)
{
    rank_metrics_write(to, arg);
}

static int find_and_write(FILE *to, const void *arg, struct hvd_error *err)
{
    const struct ps_options *options = arg;
    struct ranks ranks = {0};
    struct asked asked = {.nodes = false};
    int rc = find_on_all_nodes(options, &ranks, &asked, err);
    print_note(rc, "metrics", err);
    if (rc == HVD_OK && to == NULL)
        rc = metrics_file_write("--output", options->output, write_metrics, &ranks, err);
    else if (rc == HVD_OK)
        write_metrics(to, &ranks);
    ranks_free(&ranks);
    return rc;
}

int hvdinfo_metrics(char *const *arguments)
{
    struct ps_options options;
    struct hvd_error err = {""};
    struct find_memory memory = {0};
    int rc = take_options(&options, arguments, &metrics, &err);
    bool serves =
        options.output != NULL && strncmp(options.output, SCRAPE_PREFIX, strlen(SCRAPE_PREFIX)) == 0;
    options.memory = serves ? &memory : NULL;
    if (rc == HVD_OK && serves)
        rc = scrape_serve(options.output + strlen(SCRAPE_PREFIX), find_and_write, &options, &err);
    else if (rc == HVD_OK)
        rc = find_and_write(options.output == NULL ? stdout : NULL, &options, &err);
    find_memory_free(&memory);
    return rc == HVD_OK ? EXIT_SUCCESS : fail("metrics", &err);
}

/* ---- The stack of a rank ------------------------------------------------------------------------- */

static int take_rank_options(struct ps_options *options, char *const *arguments, int *numberp,
                             struct hvd_error *err)
{
    int rc = take_options(options, arguments, &stack, err);
    if (rc != HVD_OK)
        return rc;
    if (options->rank == NULL)
        return error_set(
            err, HVD_ERR_INVALID,
            "expected a job and one of its ranks, such as hvdinfo stack 4711.0 3; hvdinfo ps lists "
            "both");
    int64_t number = parse_count_or(options->rank, -1);
    *numberp = (int)number;
    return number >= 0 && number <= INT_MAX
               ? HVD_OK
               : error_set(err, HVD_ERR_INVALID, "%.100s: expected the number of a rank", options->rank);
}

static int choose_rank(const struct ps_options *options, const struct ranks *ranks, int number,
                       const struct rank **chosenp, struct hvd_error *err)
{
    *chosenp = NULL;
    for (int i = 0; i < ranks->count; i++) {
        const struct rank *rank = &ranks->list[i];
        if (rank->rank != number)
            continue;
        if (*chosenp != NULL)
            return error_set(
                err, HVD_ERR_STATE,
                "%.100s has several ranks %d, processes %d and %d; expected the job's step, or such "
                "a process in place of the job",
                options->job, number, (int)(*chosenp)->pid, (int)rank->pid);
        *chosenp = rank;
    }
    if (*chosenp != NULL)
        return HVD_OK;
    return ranks->count == 0
               ? find_none(options, err)
               : error_set(err, HVD_ERR_STATE, "no rank %d of %.100s was found; hvdinfo ps lists its ranks",
                           number, options->job);
}

static int find_and_write_stack(const struct ps_options *options, int number, struct hvd_error *err)
{
    struct ranks ranks = {0};
    struct asked asked = {.nodes = false};
    const struct rank *rank = NULL;
    int rc = find_on_all_nodes(options, &ranks, &asked, err);
    print_note(rc, "stack", err);
    if (rc == HVD_OK)
        rc = choose_rank(options, &ranks, number, &rank, err);
    if (rc == HVD_OK && !options->encoded)
        show_rank(stdout, rank, ranks.now_us);
    if (rc == HVD_OK)
        rc = asked.answered ? nodes_write_frames(stdout, options->job, rank, options->native, err)
                            : frames_write(stdout, rank->pid, options->native, err);
    ranks_free(&ranks);
    return rc;
}

int hvdinfo_stack(char *const *arguments)
{
    struct ps_options options;
    struct hvd_error err = {""};
    int number = 0;
    int rc = take_rank_options(&options, arguments, &number, &err);
    if (rc == HVD_OK)
        rc = find_and_write_stack(&options, number, &err);
    return rc == HVD_OK ? EXIT_SUCCESS : fail("stack", &err);
}
