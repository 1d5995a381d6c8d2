/* wireup_probe.c: a rank that only wires up: it puts a blob, reads those of all ranks, and prints its rank.
 * With the argument "leave" it dies between two fences, with "stay" it waits before the first. With
 * HAVE_MPI_PROBE it also initialises MPI, "before" or "after" wire-up, and compares the ranks. If something
 * fails it prints the sentence and exits with 1. */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_MPI_PROBE
#include <mpi.h>
#endif

#include "base/clock.h"
#include "bootstrap/wireup.h"

static int fail(const char *what, const struct hvd_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    return EXIT_FAILURE;
}

/* The blob of a rank: its length and bytes depend on the rank and the round. */
static size_t make_blob(unsigned char *blob, int rank, int round)
{
    size_t length = round == 0 ? (size_t)rank * 100 : WIREUP_BLOB_BYTES - (size_t)rank;
    memset(blob, 'a' + (rank + round) % 26, length);
    return length;
}

static int exchange(struct wireup *wireup, const struct hvd_job *job, int round, int64_t deadline_us,
                    struct hvd_error *err)
{
    static unsigned char bytes[WIREUP_BLOB_BYTES];
    char key[32];
    snprintf(key, sizeof(key), "hvd.probe.%d", round);
    int rc = wireup->ops->put(wireup->state, key, bytes, make_blob(bytes, job->rank, round), err);
    if (rc == HVD_OK)
        rc = wireup->ops->fence(wireup->state, deadline_us, err);
    for (int rank = 0; rank < job->size && rc == HVD_OK; rank++) {
        struct wireup_blob blob = {NULL, 0};
        rc = wireup->ops->get(wireup->state, rank, key, deadline_us, &blob, err);
        if (rc != HVD_OK)
            break;
        size_t expected = make_blob(bytes, rank, round);
        if (blob.length != expected || memcmp(bytes, blob.bytes, expected) != 0)
            rc = error_set(err, HVD_ERR_MISMATCH, "the blob of rank %d is wrong", rank);
        free(blob.bytes);
    }
    return rc;
}

static int wire_up(struct hvd_job *job, const char *mode)
{
    bool leaves = strcmp(mode, "leave") == 0;
    bool stays = strcmp(mode, "stay") == 0;
    struct hvd_error err = {""};
    struct hvd_config config;
    struct wireup wireup = {NULL, NULL, NULL};
    int rc = config_load(&config, environ, NULL, &err);
    if (rc != HVD_OK)
        return fail("config", &err);
    const struct hvd_log log = {(enum log_level)config.log_level, log_to_stderr, NULL};
    int64_t deadline_us = clock_us() + config.start_timeout_us;
    rc = wireup_open(&wireup, &config, &log, deadline_us, job, &err);
    if (rc != HVD_OK)
        return fail("open", &err);
    for (int waited = 0; stays && waited < 20; waited++)
        sleep(1); /* its launcher ends it sooner */
    for (int round = 0; round < 2 && rc == HVD_OK; round++) {
        rc = exchange(&wireup, job, round, deadline_us, &err);
        if (leaves)
            _exit(EXIT_FAILURE);
    }
    if (rc == HVD_OK)
        rc = wireup.ops->fence(wireup.state, deadline_us, &err);
    wireup_close(&wireup);
    return rc == HVD_OK ? EXIT_SUCCESS : fail(status_text(rc), &err);
}

#ifdef HAVE_MPI_PROBE
static int check_mpi(const struct hvd_job *job)
{
    int rank = -1;
    int size = -1;
    int sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == job->rank && size == job->size && sum == size * (size - 1) / 2)
        return EXIT_SUCCESS;
    fprintf(stderr, "MPI says rank %d of %d, wire-up says %d of %d\n", rank, size, job->rank, job->size);
    return EXIT_FAILURE;
}

static int run(int argc, char **argv, struct hvd_job *job)
{
    const char *when = argc > 1 ? argv[1] : "before";
    int rc = EXIT_SUCCESS;
    if (strcmp(when, "before") == 0)
        MPI_Init(NULL, NULL);
    rc = wire_up(job, "");
    if (strcmp(when, "after") == 0)
        MPI_Init(NULL, NULL);
    if (rc == EXIT_SUCCESS)
        rc = check_mpi(job);
    MPI_Finalize();
    return rc;
}
#else
static int run(int argc, char **argv, struct hvd_job *job)
{
    /* after its first fence, the rank of "leave" exits without any cleanup */
    return wire_up(job, argc > 1 ? argv[1] : "");
}
#endif

int main(int argc, char **argv)
{
    struct hvd_job job;
    if (run(argc, argv, &job) != EXIT_SUCCESS)
        return EXIT_FAILURE;
    printf("ok rank=%d size=%d local=%d/%d epoch=%u host=%s provider=%s\n", job.rank, job.size,
           job.local_rank, job.local_size, job.epoch, job.host, job.provider);
    return EXIT_SUCCESS;
}
