/* hvdbench_plain.c: the three ways of MPI as a plain program has them, without hvd in the process: what
 * hvdbench says of MPI is to be within a tenth of it.
 *
 *     mpirun -np 2 tools/hvdbench_plain [MODEL [ROUNDS]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/parse.h"
#include "plane/plane.h"
#include "tools/hvdbench_load.h"
#include "tools/hvdbench_stats.h"

#define PIECE_BYTES (512 * 1024)
#define WARMUP      3
#define MAX_ROUNDS  100000

/* Models of hvdbench's own are all of float32. */
static void reduce(void *data, int64_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_one(const struct load *load)
{
    reduce(load->runs[0].data, load->runs[0].count);
}

static void run_pieces(const struct load *load)
{
    const int64_t piece = PIECE_BYTES / (int64_t)sizeof(float);
    const struct load_run *run = &load->runs[0];
    for (int64_t at = 0; at < run->count; at += piece)
        reduce(run->data + at * (int64_t)sizeof(float), run->count - at < piece ? run->count - at : piece);
}

static void run_each(const struct load *load)
{
    for (int i = 0; i < load->count; i++)
        reduce(load->tensors[i].output, load->counts[i]);
}

static const struct {
    const char *name;
    void (*fill)(const struct load *load);
    void (*run)(const struct load *load);
} ways[] = {{"mpi-one", load_fill_whole, run_one},
            {"mpi-pieces", load_fill_whole, run_pieces},
            {"mpi-each", load_fill_tensors, run_each}};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* All ways in turn, as hvdbench does; a round's time is that of the slowest rank. */
static void measure(const struct load *load, double *samples, int rounds)
{
    for (int round = -WARMUP; round < rounds; round++) {
        for (int i = 0; i < WAYS; i++) {
            double us = 0;
            ways[i].fill(load);
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = MPI_Wtime();
            ways[i].run(load);
            double own_us = (MPI_Wtime() - begin) * 1e6;
            MPI_Allreduce(&own_us, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            if (round >= 0)
                samples[i * rounds + round] = us;
        }
    }
}

static int run(const struct load_job *job, const char *title, int rounds, struct hvd_error *err)
{
    struct model model = {.count = 0};
    struct load load = {.count = 0};
    double *samples = calloc(WAYS * (size_t)rounds, sizeof(double));
    int status = model_load(&model, title, err);
    if (status == HVD_OK && samples != NULL)
        status = load_init(&load, &model, job, err);
    if (status == HVD_OK && (samples == NULL || load.run_count != 1 || load.runs[0].dtype != HVD_FLOAT32))
        status = error_set(err, HVD_ERR_INVALID, "%s: expected a model of float32 only", title);
    if (status == HVD_OK)
        measure(&load, samples, rounds);
    for (int i = 0; i < WAYS && status == HVD_OK && job->rank == 0; i++)
        printf("%-10s  %10.2f ms\n", ways[i].name, stats_of(samples + i * rounds, rounds).median / 1000);
    load_fini(&load);
    model_fini(&model);
    free(samples);
    return status;
}

int main(int argc, char **argv)
{
    struct hvd_error err = {""};
    struct load_job job = {0, 1, 1};
    const char *why = NULL;
    int64_t rounds = 20;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &job.local_size);
    MPI_Comm_free(&node);
    if (argc > 2 && (parse_count(argv[2], &rounds, &why) < 0 || rounds < 1 || rounds > MAX_ROUNDS)) {
        fprintf(stderr, "hvdbench_plain: %s: expected 1 to %d rounds\n", argv[2], MAX_ROUNDS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (run(&job, argc > 1 ? argv[1] : "resnet50", (int)rounds, &err) != HVD_OK) {
        fprintf(stderr, "hvdbench_plain: %s\n", err.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
