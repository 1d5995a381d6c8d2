/* allreduce.c: the cases allreduce (the gradients of a model) and small (many small tensors), submitted all
 * at once. */
#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/report.h"

#define ROUNDS_BYTES (INT64_C(6) << 30) /* bytes of tensors in all rounds together */
#define ROUNDS_MAX   20
#define ROUNDS_MIN   5

static int measure_model(struct bench *bench, const struct model *model, const char *what, int64_t rounds,
                         struct hvd_error *err)
{
    const struct turns turns = {bench->options->warmup, rounds, 1};
    struct ways ways = {.count = 0};
    int status = ways_init(&ways, bench, model, (1U << WAY_COUNT) - 1, err);
    if (status == HVD_OK)
        status = turns_measure(bench, &turns, ways.list, ways.count, err);
    if (status == HVD_OK)
        report_ways(bench, &ways, what, rounds);
    ways_fini(&ways);
    return status;
}

/* The number of rounds that was given, or one with which a run of any model takes less than a minute. */
static int64_t rounds_of(const struct bench_options *options, const struct model *model)
{
    int64_t fit = ROUNDS_BYTES / model->bytes;
    if (options->rounds > 0)
        return options->rounds;
    return fit > ROUNDS_MAX ? ROUNDS_MAX : fit < ROUNDS_MIN ? ROUNDS_MIN : fit;
}

int case_allreduce(struct bench *bench, struct hvd_error *err)
{
    struct model model = {.count = 0};
    int status = bench_agree(bench, model_load(&model, bench->options->model, err), err);
    if (status == HVD_OK)
        status = measure_model(bench, &model, bench->options->model, rounds_of(bench->options, &model), err);
    model_fini(&model);
    return status;
}

int case_small(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    struct model model = {.count = 0};
    char each[REPORT_TEXT_BYTES];
    char what[2 * REPORT_TEXT_BYTES];
    snprintf(what, sizeof(what), "%lld x %s", (long long)options->tensors,
             report_bytes(options->bytes, each));
    int status = bench_agree(bench, model_uniform(&model, options->tensors, options->bytes, err), err);
    if (status == HVD_OK)
        status = measure_model(bench, &model, what, options->rounds, err);
    model_fini(&model);
    return status;
}
