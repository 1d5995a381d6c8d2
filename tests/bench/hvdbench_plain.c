/* hvdbench_plain.c: MPI's three ways in a program without hvd. Its times must be within a tenth of
 * those that hvdbench measures for MPI.
 *
 *     mpirun -np 2 tests/bench/hvdbench_plain [MODEL [ROUNDS [--json]]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/parse.h"
#include "base/dtype.h"
#include "tools/common/json.h"
#include "tools/hvdbench/load.h"
#include "tools/hvdbench/stats.h"

#define WARMUP     3
#define MAX_ROUNDS 100000

struct plain_work {
    const char *title; /* of a model */
    int64_t rounds;
    bool json;
};

/* All of hvdbench's built-in models are float32. */
static void reduce(void *data, int64_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void fill_tensors(const struct load *load)
{
    load_fill_tensors(load, load->tensors);
}

static void run_one(const struct load *load)
{
    reduce(load->runs[0].data, load->runs[0].count);
}

static void run_pieces(const struct load *load)
{
    const int64_t piece = MPI_PIECE_BYTES / (int64_t)sizeof(float);
    const struct load_block *run = &load->runs[0];
    for (int64_t at = 0; at < run->count; at += piece)
        reduce(run->data + at * (int64_t)sizeof(float), run->count - at < piece ? run->count - at : piece);
}

static void run_each(const struct load *load)
{
    for (int i = 0; i < load->count; i++)
        reduce(load->tensors[i].output, load->counts[i]);
}

static const struct {
    const char *name, *key;
    void (*fill)(const struct load *load);
    void (*run)(const struct load *load);
} ways[] = {{"mpi-one", "mpi_one_us", load_fill_whole, run_one},
            {"mpi-pieces", "mpi_pieces_us", load_fill_whole, run_pieces},
            {"mpi-each", "mpi_each_us", fill_tensors, run_each}};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Measure all ways in turn, as hvdbench does. The time of a round is that of the slowest rank. */
static void measure_load(const struct load *load, double *samples, int rounds)
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

/* Print the results under hvdbench's names. */
static void print_medians(const struct load_job *job, const double *medians, bool as_json)
{
    int best = 0;
    for (int i = 1; i < WAYS; i++)
        best = medians[i] < medians[best] ? i : best;
    if (!as_json) {
        for (int i = 0; i < WAYS; i++)
            printf("%-10s  %10.2f ms%s\n", ways[i].name, medians[i] / 1000, i == best ? "  mpi-best" : "");
        return;
    }
    struct json json = json_open(stdout);
    json_text(&json, "case", "plain");
    json_count(&json, "ranks", job->size);
    for (int i = 0; i < WAYS; i++)
        json_number(&json, ways[i].key, medians[i]);
    json_number(&json, "mpi_best_us", medians[best]);
    json_text(&json, "mpi_best", ways[best].name);
    json_close_line(&json);
}

static int run(const struct load_job *job, const struct plain_work *work, struct hvd_error *err)
{
    struct model model = {.count = 0};
    struct load load = {.count = 0};
    double medians[WAYS];
    double *samples = calloc(WAYS * (size_t)work->rounds, sizeof(double));
    int status = model_load(&model, work->title, err);
    if (status == HVD_OK && samples != NULL)
        status = load_init(&load, &model, job, err);
    if (status == HVD_OK && (samples == NULL || load.run_count != 1 || load.runs[0].dtype != HVD_FLOAT32))
        status = error_set(err, HVD_ERR_INVALID, "%s: expected a model of float32 only", work->title);
    if (status == HVD_OK)
        measure_load(&load, samples, (int)work->rounds);
    for (int i = 0; i < WAYS && status == HVD_OK; i++)
        medians[i] = stats_of(samples + i * work->rounds, (int)work->rounds).median;
    if (status == HVD_OK && job->rank == 0)
        print_medians(job, medians, work->json);
    load_fini(&load);
    model_fini(&model);
    free(samples);
    return status;
}

static int read_arguments(struct plain_work *work, char *const *arguments, struct hvd_error *err)
{
    const char *why = NULL;
    if (arguments[0] == NULL)
        return HVD_OK;
    work->title = arguments[0];
    if (arguments[1] == NULL)
        return HVD_OK;
    if (parse_count(arguments[1], &work->rounds, &why) < 0 || work->rounds < 1 || work->rounds > MAX_ROUNDS)
        return error_set(err, HVD_ERR_INVALID, "%s: expected 1 to %d rounds", arguments[1], MAX_ROUNDS);
    work->json = arguments[2] != NULL;
    if (work->json && (strcmp(arguments[2], "--json") != 0 || arguments[3] != NULL))
        return error_set(err, HVD_ERR_INVALID, "%s: expected --json or nothing behind the rounds",
                         arguments[2]);
    return HVD_OK;
}

int main(int argc, char **argv)
{
    struct hvd_error err = {""};
    struct load_job job = {0, 1, 1, 0};
    struct plain_work work = {"resnet50", 20, false};
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &job.local_size);
    MPI_Comm_free(&node);
    int status = read_arguments(&work, argv + 1, &err);
    if (status == HVD_OK)
        status = run(&job, &work, &err);
    if (status != HVD_OK) {
        fprintf(stderr, "hvdbench_plain: %s\n", err.text);
        MPI_Abort(MPI_COMM_WORLD, status == HVD_ERR_INVALID ? 2 : 1);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
