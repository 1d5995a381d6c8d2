/* bare_nccl.c: a communicator of NCCL beside hvd's, as a program would make it that calls NCCL by itself. */
#include "tools/hvdbench/bare_nccl.h"

#include <time.h>

#include "base/clock.h"

#define SETTLE_US INT64_C(30000000)

static const struct timespec short_pause = {.tv_nsec = 100000};

/* Wait until NCCL has done what [result] is of. */
static ncclResult_t settled(const struct bare_nccl *bare, ncclResult_t result, const struct timespec *pause)
{
    int64_t deadline_us = clock_us() + SETTLE_US;
    while (result == ncclInProgress && clock_us() < deadline_us) {
        ncclResult_t asked = bare->nccl->ncclCommGetAsyncError(bare->comm, &result);
        if (asked != ncclSuccess)
            return asked;
        if (result == ncclInProgress && pause != NULL)
            nanosleep(pause, NULL);
    }
    return result;
}

static int nccl_status(const struct bare_nccl *bare, ncclResult_t result, const char *what,
                       struct hvd_error *err)
{
    return result == ncclSuccess ? HVD_OK : nccl_error(bare->nccl, bare->comm, result, err, "%s", what);
}

static int tell_id(const struct bare_nccl *bare, struct bench *bench, ncclUniqueId *id, struct hvd_error *err)
{
    struct hvd_tensor tensor = hvd_vector("hvdbench.id", id, sizeof(*id), HVD_UINT8);
    int rc = HVD_OK;
    if (bench->rank == 0)
        rc = nccl_status(bare, bare->nccl->ncclGetUniqueId(id), "no number for a communicator", err);
    rc = bench_agree(bench, rc, err);
    if (rc != HVD_OK)
        return rc;
    rc = hvd_broadcast(&tensor, 0, NULL);
    return rc == HVD_OK ? HVD_OK : bench_hvd_error(rc, "telling the number of a communicator", err);
}

static int connect_all(struct bare_nccl *bare, const struct bench *bench, ncclUniqueId id,
                       struct hvd_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t result =
        bare->nccl->ncclCommInitRankConfig(&bare->comm, bench->size, id, bench->rank, &config);
    return nccl_status(bare, settled(bare, result, &short_pause), "the GPUs cannot be connected", err);
}

static void give_up(struct bare_nccl *bare)
{
    if (bare->comm != NULL)
        bare->nccl->ncclCommAbort(bare->comm);
    bare->comm = NULL;
}

/* On all ranks or on none. */
static int connect_together(struct bare_nccl *bare, struct bench *bench, struct hvd_error *err)
{
    ncclUniqueId id = {{0}};
    int rc = tell_id(bare, bench, &id, err);
    if (rc != HVD_OK)
        return rc;
    rc = bench_agree(bench, connect_all(bare, bench, id, err), err);
    if (rc != HVD_OK)
        give_up(bare);
    return rc;
}

int bare_nccl_open(struct bare_nccl *bare, struct bench *bench, const char *library, struct hvd_error *err)
{
    int rc = bench_agree(bench, nccl_open(library, NULL, &bare->nccl, err), err);
    return rc == HVD_OK ? connect_together(bare, bench, err) : rc;
}

void bare_nccl_close(struct bare_nccl *bare)
{
    bare_nccl_disconnect(bare);
    nccl_close(bare->nccl);
}

int bare_nccl_connect(const struct bare_nccl *bare, struct bench *bench, struct bare_nccl *second,
                      struct hvd_error *err)
{
    *second = (struct bare_nccl){.nccl = bare->nccl};
    return connect_together(second, bench, err);
}

int bare_nccl_split(const struct bare_nccl *bare, struct bench *bench, struct bare_nccl *second,
                    struct hvd_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    *second = (struct bare_nccl){.nccl = bare->nccl};
    ncclResult_t result = bare->nccl->ncclCommSplit(bare->comm, 0, bench->rank, &second->comm, &config);
    if (result == ncclSuccess) /* NCCL 2.28 says so already when it has begun */
        result = ncclInProgress;
    result = settled(bare, result, &short_pause);
    if (result == ncclSuccess)
        result = settled(second, ncclInProgress, &short_pause);
    int rc = bench_agree(bench, nccl_status(bare, result, "the communicator cannot be split", err), err);
    if (rc != HVD_OK)
        give_up(second);
    return rc;
}

void bare_nccl_disconnect(struct bare_nccl *second)
{
    if (second->comm != NULL &&
        settled(second, second->nccl->ncclCommFinalize(second->comm), &short_pause) == ncclSuccess) {
        second->nccl->ncclCommDestroy(second->comm);
        second->comm = NULL;
    }
    give_up(second);
}

int bare_nccl_sum(const struct bare_nccl *bare, const struct bare_load *load, struct CUstream_st *stream,
                  struct hvd_error *err)
{
    ncclDataType_t dtype = load->dtype == HVD_FLOAT32 ? ncclFloat32 : ncclInt32;
    ncclResult_t result = bare->nccl->ncclAllReduce(load->input, load->output, (size_t)load->count, dtype,
                                                    ncclSum, bare->comm, stream);
    return nccl_status(bare, settled(bare, result, NULL), "ncclAllReduce", err);
}
