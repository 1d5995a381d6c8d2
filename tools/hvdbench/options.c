/* options.c: parse the command line of hvdbench and of tests/bench/parts, and print their help. */
#include "tools/hvdbench/options.h"

#include <stddef.h>
#include <string.h>

#include "options/parse.h"
#include "tools/common/option_reader.h"
#include "tools/hvdbench/model.h"

#define COUNT_MAX 1000000
#define BYTES_MAX (INT64_C(1) << 34)

static int take_stamp(void *to, const struct option_given *given, struct hvd_error *err)
{
    if (strcmp(given->value, "hvd") != 0 && strcmp(given->value, "mpi") != 0)
        return error_set(err, HVD_ERR_INVALID, "%s=%.100s: expected hvd or mpi", given->where, given->value);
    return option_take_text(to, given, err);
}

static int take_collective(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct bench_options *options = to;
    bool broadcast = strcmp(given->value, "broadcast") == 0;
    if (!broadcast && strcmp(given->value, "allreduce") != 0)
        return error_set(err, HVD_ERR_INVALID, "%s=%.100s: expected allreduce or broadcast", given->where,
                         given->value);
    options->collective = broadcast ? BENCH_BROADCAST : BENCH_ALLREDUCE;
    return HVD_OK;
}

static int take_action(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct bench_options *options = to;
    (void)err;
    options->action = strcmp(given->option->name, "--help") == 0 ? BENCH_HELP : BENCH_VERSION;
    return HVD_OK;
}

static const struct tool_option option_rows[OPTION_COUNT] = {
#define FIELD(name) offsetof(struct bench_options, name)
    [OPTION_MODEL] = {NULL, "--model", "NAME",
                      MODEL_NAMES ", or a file of lines such as: fc.bias float32 1000", option_take_text,
                      FIELD(model), 0, 0},
    [OPTION_ROUNDS] = {NULL, "--rounds", "N", "rounds that count; in each, all ways are measured in turn",
                       option_take_count, FIELD(rounds), 1, COUNT_MAX},
    [OPTION_WARMUP] = {NULL, "--warmup", "N", "rounds before those that count", option_take_count,
                       FIELD(warmup), 0, COUNT_MAX},
    [OPTION_REPEATS] = {NULL, "--repeats", "N", "operations in each turn", option_take_count, FIELD(repeats),
                        1, COUNT_MAX},
    [OPTION_STEPS] = {NULL, "--steps", "N", "steps of training in each turn", option_take_count, FIELD(steps),
                      1, COUNT_MAX},
    [OPTION_BYTES] = {NULL, "--bytes", "SIZE", "size of each tensor or vector", option_take_bytes,
                      FIELD(bytes), 4, BYTES_MAX},
    [OPTION_FROM] = {NULL, "--from", "SIZE", "the first size", option_take_bytes, FIELD(from_bytes), 4,
                     BYTES_MAX},
    [OPTION_TO] = {NULL, "--to", "SIZE", "the last size", option_take_bytes, FIELD(to_bytes), 4, BYTES_MAX},
    [OPTION_FACTOR] = {NULL, "--factor", "N", "from one size to the next", option_take_count, FIELD(factor),
                       2, COUNT_MAX},
    [OPTION_TENSORS] = {NULL, "--tensors", "N", "tensors in each step", option_take_count, FIELD(tensors), 1,
                        MODEL_MAX_TENSORS},
    [OPTION_RANKS] = {NULL, "--ranks", "N", "how many ranks", option_take_count, FIELD(ranks), 1, 65536},
    [OPTION_NODE_RANKS] = {NULL, "--node-ranks", "N", "how many of them on each node", option_take_count,
                           FIELD(node_ranks), 1, 65536},
    [OPTION_SECONDS] = {NULL, "--seconds", "N", "how long to look", option_take_count, FIELD(seconds), 1,
                        86400},
    [OPTION_STAMP] = {NULL, "--stamp", "hvd|mpi",
                      "be a rank: initialise that, say when it was done, and leave", take_stamp, FIELD(stamp),
                      0, 0},
    [OPTION_ALLOC] = {NULL, "--alloc", NULL, "tensors in memory of hvd_alloc, or on GPUs of hvd_alloc_on",
                      option_take_flag, FIELD(alloc), 0, 0},
    [OPTION_AVERAGE] = {NULL, "--average", NULL, "averages, not sums", option_take_flag, FIELD(average), 0,
                        0},
    [OPTION_TYPES] = {NULL, "--types", "N", "1: all float32; 2: float32 and int32 by turns",
                      option_take_count, FIELD(types), 1, 2},
    [OPTION_COLLECTIVE] = {NULL, "--collective", "NAME", "allreduce or broadcast", take_collective, 0, 0, 0},
    [OPTION_GPU] = {NULL, "--gpu", NULL, "on GPUs", option_take_flag, FIELD(gpu), 0, 0},
    [OPTION_NO_MPI] = {NULL, "--no-mpi", NULL, "leave MPI out", option_take_flag, FIELD(no_mpi), 0, 0},
    [OPTION_JSON] = {NULL, "--json", NULL, "one JSON object a line in place of a table", option_take_flag,
                     FIELD(json), 0, 0},
    [OPTION_HELP] = {"-h", "--help", NULL, "show this and exit", take_action, 0, 0, 0},
    [OPTION_VERSION] = {"-V", "--version", NULL, "show the version and exit", take_action, 0, 0, 0},
#undef FIELD
};

static const struct bench_case *find_case(const struct bench_program *program, const char *word,
                                          struct hvd_error *err)
{
    char list[256] = "";
    for (int i = 0; i < program->case_count; i++) {
        size_t used = strlen(list);
        if (word != NULL && strcmp(program->cases[i].name, word) == 0)
            return &program->cases[i];
        snprintf(list + used, sizeof(list) - used, "%s%s",
                 i == 0                         ? ""
                 : i == program->case_count - 1 ? " or "
                                                : ", ",
                 program->cases[i].name);
    }
    if (word == NULL)
        error_set(err, HVD_ERR_INVALID, "no case was given; expected %s", list);
    else
        error_set(err, HVD_ERR_INVALID, "%.100s is no case; expected %s", word, list);
    return NULL;
}

static int unknown(const struct bench_program *program, const struct bench_case *row, const char *word,
                   struct hvd_error *err)
{
    char list[256] = "";
    if (strncmp(word, "--hvd-", strlen("--hvd-")) == 0)
        return error_set(err, HVD_ERR_INVALID,
                         "%.100s: options of hvd go to what starts the ranks, such as hvdrun, before %s",
                         word, program->name);
    for (int i = 0; row->taken[i].id != OPTION_END; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s, ", option_rows[row->taken[i].id].name);
    }
    return error_set(err, HVD_ERR_INVALID, "%s %s has no option %.100s; expected %s--json or --help",
                     program->name, row->name, word, list);
}

/* The options of a case, with those of every case. Returns their number. */
static int options_of(const struct bench_case *row, struct tool_option options[OPTION_COUNT])
{
    int count = 0;
    for (; row->taken[count].id != OPTION_END; count++)
        options[count] = option_rows[row->taken[count].id];
    for (int id = OPTION_JSON; id < OPTION_COUNT; id++)
        options[count++] = option_rows[id];
    return count;
}

static int check_sizes(const struct bench_options *options, struct hvd_error *err)
{
    if (options->bytes % 4 != 0 || options->from_bytes % 4 != 0)
        return error_set(err, HVD_ERR_INVALID, "--%s=%lld: expected a multiple of 4, the size of a float32",
                         options->bytes != 0 ? "bytes" : "from",
                         (long long)(options->bytes + options->from_bytes));
    if (options->from_bytes > options->to_bytes) {
        char from[32];
        char to[32];
        format_size(options->from_bytes, from, sizeof(from));
        format_size(options->to_bytes, to, sizeof(to));
        return error_set(err, HVD_ERR_INVALID, "--from=%s is more than --to=%s", from, to);
    }
    return HVD_OK;
}

int bench_options_parse(struct bench_options *options, const struct bench_program *program, char *const *argv,
                        struct hvd_error *err)
{
    struct tool_option table[OPTION_COUNT];
    struct option_given given;
    char *const *at = argv[0] == NULL ? argv : argv + 1;
    int status = HVD_OK;
    *options = (struct bench_options){.action = BENCH_RUN};
    if (*at != NULL && option_read(&option_rows[OPTION_HELP], 2, *at, &at, &given, err) == HVD_OK)
        return take_action(options, &given, err);
    const struct bench_case *row = find_case(program, *at, err);
    if (row == NULL)
        return HVD_ERR_INVALID;
    options->chosen = row;
    int count = options_of(row, table);
    for (int i = 0; row->taken[i].id != OPTION_END && status == HVD_OK; i++) {
        given = (struct option_given){&table[i], table[i].name, row->taken[i].def};
        if (given.value != NULL)
            status = table[i].take(options, &given, err);
    }
    at++;
    while (status == HVD_OK && *at != NULL && options->action == BENCH_RUN) {
        const char *word = *at++;
        status = option_read(table, count, word, &at, &given, err);
        if (status == HVD_OK)
            status = given.option->take(options, &given, err);
        else if (status == HVD_ERR_UNSUPPORTED)
            status = unknown(program, row, word, err);
    }
    return status == HVD_OK ? check_sizes(options, err) : status;
}

static void print_option(FILE *to, const struct tool_option *option, const char *def)
{
    char spelling[64];
    fprintf(to, "    %-18s %s", tool_option_spelling(option, spelling, sizeof(spelling)), option->help);
    if (def != NULL)
        fprintf(to, " (default: %s)", def);
    fputc('\n', to);
}

void bench_options_help(FILE *to, const struct bench_program *program)
{
    fputs(program->usage, to);
    for (int i = 0; i < program->case_count; i++) {
        const struct bench_case *row = &program->cases[i];
        fprintf(to, "\n  %s: %s\n", row->name, row->help);
        for (int k = 0; row->taken[k].id != OPTION_END; k++)
            print_option(to, &option_rows[row->taken[k].id], row->taken[k].def);
    }
    fputs("\n  every case:\n", to);
    for (int id = OPTION_JSON; id < OPTION_COUNT; id++)
        print_option(to, &option_rows[id], NULL);
}
