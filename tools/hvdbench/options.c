/* options.c: parse hvdbench's command line, and print its help. */
#include "tools/hvdbench/options.h"

#include <stddef.h>
#include <string.h>

#include "options/parse.h"
#include "tools/hvdbench/bars/bar.h"
#include "tools/hvdbench/model.h"

#define COUNT_MAX 1000000
#define BYTES_MAX (INT64_C(1) << 34)

enum option {
    OPTION_END, /* ends a list */
    OPTION_MODEL,
    OPTION_ROUNDS,
    OPTION_WARMUP,
    OPTION_REPEATS,
    OPTION_STEPS,
    OPTION_BYTES,
    OPTION_FROM,
    OPTION_TO,
    OPTION_FACTOR,
    OPTION_TENSORS,
    OPTION_RANKS,
    OPTION_NODE_RANKS,
    OPTION_SECONDS,
    OPTION_STAMP,
    OPTION_RUNS,
    OPTION_ONLY,
    OPTION_LIST,
    OPTION_ALLOC,
    OPTION_GPU,
    OPTION_NO_MPI,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_COUNT
};

enum option_kind { KIND_COUNT, KIND_BYTES, KIND_TEXT, KIND_FLAG, KIND_ACTION };

static const struct option_row {
    const char *name;
    const char *arg; /* name of the value; NULL: takes none */
    const char *help;
    enum option_kind kind;
    size_t offset; /* in bench_options, of an int64_t, a const char * or a bool */
    int64_t min, max;
} option_rows[OPTION_COUNT] = {
#define FIELD(name) offsetof(struct bench_options, name)
    [OPTION_MODEL] = {"--model", "NAME", MODEL_NAMES ", or a file of lines such as: fc.bias float32 1000",
                      KIND_TEXT, FIELD(model), 0, 0},
    [OPTION_ROUNDS] = {"--rounds", "N", "rounds that count; in each, all ways are measured in turn",
                       KIND_COUNT, FIELD(rounds), 1, COUNT_MAX},
    [OPTION_WARMUP] = {"--warmup", "N", "rounds before those that count", KIND_COUNT, FIELD(warmup), 0,
                       COUNT_MAX},
    [OPTION_REPEATS] = {"--repeats", "N", "operations in each turn", KIND_COUNT, FIELD(repeats), 1,
                        COUNT_MAX},
    [OPTION_STEPS] = {"--steps", "N", "steps of training in each turn", KIND_COUNT, FIELD(steps), 1,
                      COUNT_MAX},
    [OPTION_BYTES] = {"--bytes", "SIZE", "size of each tensor or vector", KIND_BYTES, FIELD(bytes), 4,
                      BYTES_MAX},
    [OPTION_FROM] = {"--from", "SIZE", "the first size", KIND_BYTES, FIELD(from_bytes), 4, BYTES_MAX},
    [OPTION_TO] = {"--to", "SIZE", "the last size", KIND_BYTES, FIELD(to_bytes), 4, BYTES_MAX},
    [OPTION_FACTOR] = {"--factor", "N", "from one size to the next", KIND_COUNT, FIELD(factor), 2, COUNT_MAX},
    [OPTION_TENSORS] = {"--tensors", "N", "tensors in each step", KIND_COUNT, FIELD(tensors), 1,
                        MODEL_MAX_TENSORS},
    [OPTION_RANKS] = {"--ranks", "N", "how many ranks", KIND_COUNT, FIELD(ranks), 1, 65536},
    [OPTION_NODE_RANKS] = {"--node-ranks", "N", "how many of them on each node", KIND_COUNT,
                           FIELD(node_ranks), 1, 65536},
    [OPTION_SECONDS] = {"--seconds", "N", "how long to look", KIND_COUNT, FIELD(seconds), 1, 86400},
    [OPTION_STAMP] = {"--stamp", "hvd|mpi", "be a rank: initialise that, say when it was done, and leave",
                      KIND_TEXT, FIELD(stamp), 0, 0},
    [OPTION_RUNS] = {"--runs", "N", "runs of each bar, all of which have to meet it", KIND_COUNT, FIELD(runs),
                     1, BENCH_RUNS_MAX},
    [OPTION_ONLY] = {"--only", "NAMES", "some of the bars, such as: small,latency", KIND_TEXT, FIELD(only), 0,
                     0},
    [OPTION_LIST] = {"--list", NULL, "show the bars and their commands, and run nothing", KIND_FLAG,
                     FIELD(list), 0, 0},
    [OPTION_ALLOC] = {"--alloc", NULL, "tensors in memory of hvd_alloc, not of malloc", KIND_FLAG,
                      FIELD(alloc), 0, 0},
    [OPTION_GPU] = {"--gpu", NULL, "on GPUs", KIND_FLAG, FIELD(gpu), 0, 0},
    [OPTION_NO_MPI] = {"--no-mpi", NULL, "leave MPI out", KIND_FLAG, FIELD(no_mpi), 0, 0},
    [OPTION_JSON] = {"--json", NULL, "one JSON object a line in place of a table", KIND_FLAG, FIELD(json), 0,
                     0},
    [OPTION_HELP] = {"--help", NULL, "show this and exit", KIND_ACTION, 0, 0, 0},
    [OPTION_VERSION] = {"--version", NULL, "show the version and exit", KIND_ACTION, 0, 0, 0},
#undef FIELD
};

/* An option of a case, and its default; NULL: no default. */
struct case_option {
    enum option id;
    const char *def;
};

static const struct case_row {
    const char *name;
    const char *help;
    struct case_option taken[8]; /* ended by OPTION_END */
} case_rows[BENCH_CASES] = {
    [BENCH_ALLREDUCE] =
        {"allreduce",
         "all gradients of a model, submitted in backward order; by default 20 rounds, of large models fewer",
         {{OPTION_MODEL, "resnet50"}, {OPTION_ROUNDS, NULL}, {OPTION_WARMUP, "1"}, {OPTION_NO_MPI, NULL}}},
    [BENCH_SMALL] = {"small",
                     "many small tensors, submitted at once",
                     {{OPTION_TENSORS, "1000"},
                      {OPTION_BYTES, "1K"},
                      {OPTION_ROUNDS, "100"},
                      {OPTION_WARMUP, "10"},
                      {OPTION_NO_MPI, NULL}}},
    [BENCH_LATENCY] = {"latency",
                       "one tensor at a time, waiting for each",
                       {{OPTION_BYTES, "4"},
                        {OPTION_ROUNDS, "10"},
                        {OPTION_WARMUP, "1"},
                        {OPTION_REPEATS, "1000"},
                        {OPTION_ALLOC, NULL},
                        {OPTION_NO_MPI, NULL}}},
    [BENCH_SWEEP] = {"sweep",
                     "one tensor at a time, from small to large",
                     {{OPTION_FROM, "4"},
                      {OPTION_TO, "1G"},
                      {OPTION_FACTOR, "4"},
                      {OPTION_ROUNDS, "10"},
                      {OPTION_WARMUP, "2"},
                      {OPTION_ALLOC, NULL},
                      {OPTION_NO_MPI, NULL}}},
    [BENCH_IDLE] = {"idle", "CPU time of a job that is initialised and silent", {{OPTION_SECONDS, "5"}}},
    [BENCH_TRACE] =
        {"trace",
         "what a timeline costs",
         {{OPTION_MODEL, "resnet50"}, {OPTION_ROUNDS, "9"}, {OPTION_WARMUP, "1"}, {OPTION_STEPS, "5"}}},
    [BENCH_LAUNCH] = {"launch",
                      "start of hvdrun, or mpirun, until all ranks are initialised; run it by itself",
                      {{OPTION_RANKS, "2"},
                       {OPTION_ROUNDS, "9"},
                       {OPTION_WARMUP, "1"},
                       {OPTION_STAMP, NULL},
                       {OPTION_NO_MPI, NULL}}},
    [BENCH_NEGOTIATE] =
        {"negotiate",
         "the agreement alone, between simulated ranks; run it by itself",
         {{OPTION_RANKS, "1024"}, {OPTION_NODE_RANKS, "8"}, {OPTION_TENSORS, "161"}, {OPTION_ROUNDS, "200"}}},
    [BENCH_KERNELS] = {"kernels",
                       "the arithmetic alone, by all code that this processor can run; run it by itself",
                       {{OPTION_BYTES, "64K"}, {OPTION_ROUNDS, "20"}}},
    [BENCH_PACK] =
        {"pack",
         "tensors on a GPU into one buffer and back, beside a copy; all models by default; run it by itself",
         {{OPTION_GPU, NULL}, {OPTION_MODEL, NULL}, {OPTION_ROUNDS, "50"}}},
    [BENCH_OVERHEAD] =
        {"overhead",
         "a batch of tensors on GPUs: the host's time to launch it, and the device's beyond NCCL alone",
         {{OPTION_GPU, NULL},
          {OPTION_TENSORS, "64"},
          {OPTION_BYTES, "1M"},
          {OPTION_ROUNDS, "50"},
          {OPTION_WARMUP, "5"}}},
    [BENCH_BARS] = {"bars",
                    "what hvd is to reach, by the cases above, and whether it does; run it by itself",
                    {{OPTION_RUNS, "3"}, {OPTION_ONLY, NULL}, {OPTION_LIST, NULL}}},
};

/* Options of every case. */
static const enum option common[] = {OPTION_JSON, OPTION_HELP, OPTION_VERSION};

/* Reads argv from left to right. */
struct bench_options_reader {
    char *const *at; /* the next word */
    const struct case_row *row;
    struct bench_options *options;
    struct hvd_error *err;
};

static bool is_taken(const struct case_row *row, enum option id)
{
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        if (common[i] == id)
            return true;
    for (const struct case_option *taken = row->taken; taken->id != OPTION_END; taken++)
        if (taken->id == id)
            return true;
    return false;
}

static int apply_number(struct bench_options_reader *reader, const struct option_row *row, const char *text)
{
    int64_t value = 0;
    const char *why = NULL;
    char min[32], max[32];
    int rc = row->kind == KIND_BYTES ? parse_size(text, &value, &why) : parse_count(text, &value, &why);
    if (rc == 0 && value >= row->min && value <= row->max) {
        memcpy((char *)reader->options + row->offset, &value, sizeof(value));
        return HVD_OK;
    }
    if (rc == 0)
        why = value < row->min ? "is too small" : "is too large";
    if (row->kind == KIND_BYTES) {
        format_size(row->min, min, sizeof(min));
        format_size(row->max, max, sizeof(max));
    } else {
        snprintf(min, sizeof(min), "%lld", (long long)row->min);
        snprintf(max, sizeof(max), "%lld", (long long)row->max);
    }
    return error_set(reader->err, HVD_ERR_INVALID, "%s=%.100s: the %s %s; expected %s to %s", row->name, text,
                     row->kind == KIND_BYTES ? "size" : "number", why, min, max);
}

static int apply_text(struct bench_options_reader *reader, const struct option_row *row, const char *text)
{
    if (row == &option_rows[OPTION_STAMP] && strcmp(text, "hvd") != 0 && strcmp(text, "mpi") != 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%s=%.100s: expected hvd or mpi", row->name, text);
    if (text[0] == 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%s is empty; expected %s", row->name, row->help);
    memcpy((char *)reader->options + row->offset, &text, sizeof(text));
    return row == &option_rows[OPTION_ONLY] ? bar_check_names(text, reader->err) : HVD_OK;
}

static int apply(struct bench_options_reader *reader, enum option id, const char *value)
{
    static const bool yes = true;
    const struct option_row *row = &option_rows[id];
    switch (row->kind) {
    case KIND_COUNT:
    case KIND_BYTES:
        return apply_number(reader, row, value);
    case KIND_TEXT:
        return apply_text(reader, row, value);
    case KIND_FLAG:
        memcpy((char *)reader->options + row->offset, &yes, sizeof(yes));
        return HVD_OK;
    case KIND_ACTION:
        reader->options->action = id == OPTION_HELP ? BENCH_HELP : BENCH_VERSION;
        return HVD_OK;
    }
    return HVD_ERR_INVALID;
}

static int unknown(struct bench_options_reader *reader, const char *word)
{
    char list[256] = "";
    if (strncmp(word, "--hvd-", strlen("--hvd-")) == 0)
        return error_set(
            reader->err, HVD_ERR_INVALID,
            "%.100s: options of hvd go to what starts the ranks, such as hvdrun, before hvdbench", word);
    for (const struct case_option *taken = reader->row->taken; taken->id != OPTION_END; taken++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s, ", option_rows[taken->id].name);
    }
    return error_set(reader->err, HVD_ERR_INVALID,
                     "hvdbench %s has no option %.100s; expected %s--json or --help", reader->row->name, word,
                     list);
}

/* --rounds=9, --rounds 9, --json */
static int read_option(struct bench_options_reader *reader, const char *word)
{
    size_t length = strcspn(word, "=");
    for (int id = OPTION_END + 1; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        const char *value = word[length] == '=' ? word + length + 1 : NULL;
        if (strlen(row->name) != length || memcmp(row->name, word, length) != 0 ||
            !is_taken(reader->row, (enum option)id))
            continue;
        if (row->arg == NULL && value != NULL)
            return error_set(reader->err, HVD_ERR_INVALID, "%s takes no value, but was given %.100s",
                             row->name, value);
        if (row->arg != NULL && value == NULL) {
            if (*reader->at == NULL)
                return error_set(reader->err, HVD_ERR_INVALID, "%s needs a value: %s", row->name, row->help);
            value = *reader->at++;
        }
        return apply(reader, (enum option)id, value);
    }
    return unknown(reader, word);
}

static int find_case(struct bench_options_reader *reader, const char *word)
{
    char list[256] = "";
    for (int i = 0; i < BENCH_CASES; i++) {
        size_t used = strlen(list);
        if (word != NULL && strcmp(case_rows[i].name, word) == 0) {
            reader->row = &case_rows[i];
            reader->options->chosen = (enum bench_case)i;
            return HVD_OK;
        }
        snprintf(list + used, sizeof(list) - used, "%s%s",
                 i == 0                 ? ""
                 : i == BENCH_CASES - 1 ? " or "
                                        : ", ",
                 case_rows[i].name);
    }
    if (word == NULL)
        return error_set(reader->err, HVD_ERR_INVALID, "no case was given; expected %s", list);
    return error_set(reader->err, HVD_ERR_INVALID, "%.100s is no case; expected %s", word, list);
}

static int check(struct bench_options_reader *reader)
{
    const struct bench_options *options = reader->options;
    if (options->bytes % 4 != 0 || options->from_bytes % 4 != 0)
        return error_set(
            reader->err, HVD_ERR_INVALID, "--%s=%lld: expected a multiple of 4, the size of a float32",
            options->bytes != 0 ? "bytes" : "from", (long long)(options->bytes + options->from_bytes));
    if (options->from_bytes > options->to_bytes) {
        char from[32];
        char to[32];
        format_size(options->from_bytes, from, sizeof(from));
        format_size(options->to_bytes, to, sizeof(to));
        return error_set(reader->err, HVD_ERR_INVALID, "--from=%s is more than --to=%s", from, to);
    }
    return HVD_OK;
}

int bench_options_parse(struct bench_options *options, char *const *argv, struct hvd_error *err)
{
    struct bench_options_reader reader = {argv[0] == NULL ? argv : argv + 1, NULL, options, err};
    const char *first = *reader.at;
    *options = (struct bench_options){.action = BENCH_RUN};
    if (first != NULL && (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)) {
        options->action = BENCH_HELP;
        return HVD_OK;
    }
    if (first != NULL && (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0)) {
        options->action = BENCH_VERSION;
        return HVD_OK;
    }
    int status = find_case(&reader, first);
    if (status != HVD_OK)
        return status;
    for (const struct case_option *taken = reader.row->taken; taken->id != OPTION_END && status == HVD_OK;
         taken++) {
        if (taken->def != NULL)
            status = apply(&reader, taken->id, taken->def);
    }
    reader.at++;
    while (status == HVD_OK && *reader.at != NULL && options->action == BENCH_RUN) {
        const char *word = *reader.at++;
        status = read_option(&reader, word);
    }
    return status == HVD_OK ? check(&reader) : status;
}

static void show(FILE *to, const struct option_row *row, const char *def)
{
    char spelling[64];
    snprintf(spelling, sizeof(spelling), "%s%s%s", row->name, row->arg == NULL ? "" : "=",
             row->arg == NULL ? "" : row->arg);
    fprintf(to, "    %-18s %s", spelling, row->help);
    if (def != NULL)
        fprintf(to, " (default: %s)", def);
    fputc('\n', to);
}

void bench_options_help(FILE *to)
{
    fputs("Usage: hvdrun -n N --no-prefix hvdbench CASE [options]\n"
          "Measure hvd, and MPI and plain memory beside it, in turn in one job.\n",
          to);
    for (int i = 0; i < BENCH_CASES; i++) {
        fprintf(to, "\n  %s: %s\n", case_rows[i].name, case_rows[i].help);
        for (const struct case_option *taken = case_rows[i].taken; taken->id != OPTION_END; taken++)
            show(to, &option_rows[taken->id], taken->def);
    }
    fputs("\n  every case:\n", to);
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        show(to, &option_rows[common[i]], NULL);
}

const char *bench_case_name(enum bench_case chosen)
{
    return case_rows[chosen].name;
}
