/* kernels.c: the speed of the reduction kernels, for each instruction set that this processor supports. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "backend/arith/kernels.h"
#include "base/dtype.h"
#include "tests/bench/parts.h"
#include "tools/hvdbench/report.h"
#include "tools/hvdbench/stats.h"

#define TURN_BYTES \
    (INT64_C(1) << 20) /* small vectors are repeated in a turn until this many bytes were processed */

/* The operands and the result, [bytes] each. */
struct vectors {
    char *out, *left, *right;
    int64_t bytes;
};

enum work { SUM, MIN, PRODUCT, SCALE, DIVIDE, SUM_SCALE, WIDEN, NARROW, WORKS };

static const char *const work_names[WORKS] = {"sum",    "min",     "product", "scale",
                                              "divide", "average", "widen",   "narrow"};

/* Narrow types are converted to float32 and back, and reduced as float32. */
static bool has_kernel(enum hvd_dtype dtype, enum work work)
{
    bool converts = work == WIDEN || work == NARROW;
    if (kernels_plain.widen[dtype] != NULL || converts)
        return kernels_plain.widen[dtype] != NULL && converts;
    return dtype != HVD_BOOL || work < SCALE;
}

static void run_kernel(const struct kernels *kernels, enum hvd_dtype dtype, enum work work,
                       const struct vectors *vectors)
{
    static const enum hvd_op ops[] = {[SUM] = HVD_SUM, [MIN] = HVD_MIN, [PRODUCT] = HVD_PRODUCT};
    const struct arith *arith = &kernels->arith[dtype];
    int64_t singles = vectors->bytes / (int64_t)sizeof(float);
    int64_t count = vectors->bytes / (int64_t)dtype_bytes(dtype);
    switch (work) {
    case SCALE:
        arith->scale(vectors->out, vectors->left, count, 0.7);
        break;
    case DIVIDE:
        arith->divide(vectors->out, vectors->left, count, 3);
        break;
    case SUM_SCALE:
        arith->sum_scale(vectors->out, vectors->left, vectors->right, count, 0.5);
        break;
    case WIDEN:
        kernels->widen[dtype](vectors->out, vectors->left, singles);
        break;
    case NARROW:
        kernels->narrow[dtype](vectors->out, vectors->left, singles);
        break;
    default:
        arith->fold(ops[work], vectors->out, vectors->left, vectors->right, count);
    }
}

static int count_targets(void)
{
    int count = 0;
    while (kernels_usable(count) != NULL)
        count++;
    return count;
}

/* Returns 10^9 bytes per second, of [kernels] or, if NULL, of memcpy. */
static double rate(const struct kernels *kernels, enum hvd_dtype dtype, enum work work,
                   const struct vectors *vectors)
{
    int64_t repeats = vectors->bytes < TURN_BYTES ? TURN_BYTES / vectors->bytes : 1;
    int64_t begin_ns = clock_ns();
    for (int64_t i = 0; i < repeats; i++) {
        if (kernels != NULL)
            run_kernel(kernels, dtype, work, vectors);
        else
            memcpy(vectors->out, vectors->left, (size_t)vectors->bytes);
        __asm__ volatile("" ::"r"(vectors->out) : "memory"); /* keep the compiler from removing a copy */
    }
    int64_t took_ns = clock_ns() - begin_ns;
    return (double)(vectors->bytes * repeats) / (double)(took_ns > 0 ? took_ns : 1);
}

/* Measure all targets in turn, then memcpy, and compute the medians. [samples] has room for all rounds of all
 * of these. */
static void measure_kernel(int64_t rounds, enum hvd_dtype dtype, enum work work,
                           const struct vectors *vectors, double *samples,
                           double medians[KERNELS_TARGETS + 1])
{
    int targets = count_targets();
    for (int64_t round = -1; round < rounds; round++) /* the first is a warm-up */
        for (int i = 0; i <= targets; i++) {
            double found = rate(kernels_usable(i), dtype, work, vectors);
            if (round >= 0)
                samples[i * rounds + round] = found;
        }
    for (int i = 0; i <= targets; i++)
        medians[i] = stats_of(samples + i * rounds, (int)rounds).median;
}

static void print_speeds_json(const struct bench_options *options, enum hvd_dtype dtype, enum work work,
                              const double medians[])
{
    int targets = count_targets();
    for (int i = 0; i < targets; i++) {
        struct json json = json_open(stdout);
        json_text(&json, "case", options->chosen->name);
        json_text(&json, "target", kernels_usable(i)->name);
        json_text(&json, "type", dtype_name(dtype));
        json_text(&json, "op", work_names[work]);
        json_count(&json, "bytes", options->bytes);
        json_count(&json, "rounds", options->rounds);
        json_text(&json, "version", hvd_version());
        json_number(&json, "gbs", medians[i]);
        json_number(&json, "memcpy_gbs", medians[targets]);
        json_close_line(&json);
    }
}

static void show_heads(const struct bench_options *options)
{
    char bytes[REPORT_TEXT_BYTES];
    printf("kernels: vectors of %s, %lld round%s; 10^9 bytes a second\n  %-8s  %-8s",
           report_bytes(options->bytes, bytes), (long long)options->rounds, report_s(options->rounds), "",
           "");
    for (int i = 0; kernels_usable(i) != NULL; i++)
        printf("  %8s", kernels_usable(i)->name);
    printf("  %8s\n", "memcpy");
}

static void show_row(enum hvd_dtype dtype, enum work work, const double medians[])
{
    printf("  %-8s  %-8s", dtype_name(dtype), work_names[work]);
    for (int i = 0; i <= count_targets(); i++)
        printf("  %8.1f", medians[i]);
    printf("\n");
}

static void measure_all(const struct bench_options *options, const struct vectors *vectors, double *samples)
{
    double medians[KERNELS_TARGETS + 1];
    if (!options->json)
        show_heads(options);
    for (int i = 0; i < DTYPE_COUNT * WORKS; i++) {
        enum hvd_dtype dtype = (enum hvd_dtype)(i / WORKS);
        enum work work = (enum work)(i % WORKS);
        if (!has_kernel(dtype, work))
            continue;
        measure_kernel(options->rounds, dtype, work, vectors, samples, medians);
        if (options->json)
            print_speeds_json(options, dtype, work, medians);
        else
            show_row(dtype, work, medians);
    }
}

/* Fill the vector with bytes that are a normal, non-zero number in every type. */
static char *vector_new(int64_t bytes)
{
    size_t whole = ((size_t)bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    char *vector = aligned_alloc(CACHE_LINE_BYTES, whole);
    if (vector != NULL)
        memset(vector, 0x3f, whole);
    return vector;
}

int case_kernels(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    struct vectors vectors = {vector_new(options->bytes), vector_new(options->bytes),
                              vector_new(options->bytes), options->bytes};
    double *samples = calloc((size_t)options->rounds * (KERNELS_TARGETS + 1), sizeof(*samples));
    int status = HVD_OK;
    if (vectors.out == NULL || vectors.left == NULL || vectors.right == NULL || samples == NULL)
        status =
            error_set(err, HVD_ERR_NO_MEMORY, "no memory for three vectors of %lld bytes and %lld rounds",
                      (long long)options->bytes, (long long)options->rounds);
    else
        measure_all(options, &vectors, samples);
    free(samples);
    free(vectors.right);
    free(vectors.left);
    free(vectors.out);
    return status;
}
