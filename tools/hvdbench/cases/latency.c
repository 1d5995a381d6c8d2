/* latency.c: the cases latency and sweep: one tensor at a time, waiting for each, of one size or of many
 * sizes. */
#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/report.h"

#define TURN_BYTES   (4 << 20) /* what a sweep moves in one turn, by repeating small tensors */
#define TURN_REPEATS 100       /* at most */

/* Measure one tensor of [bytes], and call [show] with the result. */
static int measure_tensor(struct bench *bench, int64_t bytes, const struct turns *turns,
                          void (*show)(const struct bench *bench, const struct ways *ways),
                          struct hvd_error *err)
{
    struct model model = {.count = 0};
    struct ways ways = {.count = 0};
    unsigned wanted = 1U << (bench->options->alloc ? WAY_HVD_ALLOC : WAY_HVD) | 1U << WAY_MPI_ONE;
    if (bytes > MPI_PIECE_BYTES)
        wanted |= 1U << WAY_MPI_PIECES;
    int status = bench_agree(bench, model_uniform(&model, 1, bytes, err), err);
    if (status == HVD_OK)
        status = ways_init(&ways, bench, &model, wanted, err);
    if (status == HVD_OK)
        status = turns_measure(bench, turns, ways.list, ways.count, err);
    if (status == HVD_OK)
        show(bench, &ways);
    ways_fini(&ways);
    model_fini(&model);
    return status;
}

/* ---- One size ------------------------------------------------------------------------------------- */

static void show_latency(const struct bench *bench, const struct ways *ways)
{
    char bytes[REPORT_TEXT_BYTES];
    report_ways(bench, ways, report_bytes(ways->load.model->bytes, bytes), bench->options->rounds);
}

int case_latency(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    const struct turns turns = {options->warmup, options->rounds, options->repeats};
    return measure_tensor(bench, options->bytes, &turns, show_latency, err);
}

/* ---- All sizes ------------------------------------------------------------------------------------ */

/* GB/s. Algorithm bandwidth is the tensor's size divided by the time. Bus bandwidth is that times 2 (N - 1) /
 * N, the part of the tensor that each of N ranks must send and receive at least. */
static double algorithm_bandwidth(int64_t bytes, double us)
{
    return (double)bytes / us / 1000;
}

static double bus_bandwidth(const struct bench *bench, int64_t bytes, double us)
{
    return algorithm_bandwidth(bytes, us) * 2 * (bench->size - 1) / bench->size;
}

static void show_head(const struct bench *bench)
{
    char ranks[2 * REPORT_TEXT_BYTES];
    printf("sweep: float32, sum, in place%s, %s; times are medians, bandwidths in GB/s\n",
           bench->options->alloc ? ", in memory of hvd_alloc" : "", report_ranks(bench, ranks));
    if (bench->mpi == NULL)
        printf("MPI is left out: %s\n", bench->mpi_why);
    else
        printf("MPI is %s, the faster of one call and 512 KiB pieces\n", bench->mpi->version());
    report_cores(bench);
    printf("%10s  %12s  %12s  %8s  %8s", "size", "hvd", "p99", "algbw", "busbw");
    if (bench->mpi != NULL)
        printf("  %12s  %8s  %8s  %9s", "MPI", "algbw", "busbw", "hvd takes");
    putchar('\n');
}

static void show_row(const struct bench *bench, const struct ways *ways)
{
    char size[REPORT_TEXT_BYTES];
    char median[REPORT_TEXT_BYTES];
    char p99[REPORT_TEXT_BYTES];
    const struct way *hvd = ways_hvd(ways);
    const struct way *mpi = ways_best_mpi(ways);
    int64_t bytes = ways->load.model->bytes;
    printf("%10s  %12s  %12s  %8.3f  %8.3f", report_bytes(bytes, size), report_time(hvd->us.median, median),
           report_time(hvd->us.p99, p99), algorithm_bandwidth(bytes, hvd->us.median),
           bus_bandwidth(bench, bytes, hvd->us.median));
    if (mpi != NULL)
        printf("  %12s  %8.3f  %8.3f  %7.2f x", report_time(mpi->us.median, median),
               algorithm_bandwidth(bytes, mpi->us.median), bus_bandwidth(bench, bytes, mpi->us.median),
               hvd->us.median / mpi->us.median);
    putchar('\n');
    fflush(stdout);
}

static void show_sweep(const struct bench *bench, const struct ways *ways)
{
    int64_t bytes = ways->load.model->bytes;
    if (bench->rank != 0)
        return;
    if (!bench->options->json) {
        show_row(bench, ways);
        return;
    }
    double us = ways_hvd(ways)->us.median;
    struct json json = report_open(bench);
    json_count(&json, "bytes", bytes);
    json_count(&json, "rounds", bench->options->rounds);
    report_ways_fields(&json, bench, ways);
    json_number(&json, "algbw_gbs", algorithm_bandwidth(bytes, us));
    json_number(&json, "busbw_gbs", bus_bandwidth(bench, bytes, us));
    json_close_line(&json);
}

int case_sweep(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    int status = HVD_OK;
    if (bench->rank == 0 && !options->json)
        show_head(bench);
    for (int64_t bytes = options->from_bytes; bytes <= options->to_bytes && status == HVD_OK;
         bytes *= options->factor) {
        const struct turns turns = {options->warmup, options->rounds,
                                    turns_repeats(bytes, TURN_BYTES, TURN_REPEATS)};
        status = measure_tensor(bench, bytes, &turns, show_sweep, err);
    }
    return status;
}
