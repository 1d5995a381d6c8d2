/* fence_wireup.c: wire-up by a fence at rank 0: what a rank puts goes to rank 0, which gives it to those that
 * ask. */
#include "config.h"
#include "pmix_shim/fence_wireup.h"

#include <sodium.h>
#include <stdlib.h>

#include "pmix_shim/node_ranks.h"

struct fence_wireup {
    struct env_job job;
    struct store *store;
    struct fence_server *fence_server; /* on rank 0, else NULL */
    struct fence_client *fence_client; /* on all other ranks, else NULL */
};

void fence_wireup_close(void *opaque)
{
    struct fence_wireup *state = opaque;
    if (state == NULL)
        return;
    fence_server_close(state->fence_server);
    fence_client_close(state->fence_client);
    store_destroy(state->store);
    sodium_memzero(state, sizeof(*state));
    free(state);
}

int fence_wireup_open(const struct env_job *where, const struct hvd_job *job, int64_t deadline_us,
                      void **statep, struct hvd_error *err)
{
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised");
    struct fence_wireup *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    state->job = *where;
    state->job.rank = job->rank;
    state->job.size = job->size;
    state->job.epoch = job->epoch;
    state->store = store_create(job->size);
    int rc = state->store != NULL ? node_ranks_put(state->store, err)
                                  : error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    if (rc == HVD_OK)
        rc = job->rank == 0 ? fence_server_open(&state->fence_server, &state->job, state->store, err)
                            : fence_client_open(&state->fence_client, &state->job, deadline_us, err);
    if (rc == HVD_OK)
        *statep = state;
    else
        fence_wireup_close(state);
    return rc;
}

int fence_wireup_put(void *opaque, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    struct fence_wireup *state = opaque;
    return store_put(state->store, key, bytes, length, err);
}

int fence_wireup_fence(void *opaque, int64_t deadline_us, struct hvd_error *err)
{
    struct fence_wireup *state = opaque;
    return state->fence_server != NULL
               ? fence_server_fence(state->fence_server, deadline_us, err)
               : fence_client_fence(state->fence_client, state->store, deadline_us, err);
}

int fence_wireup_get(void *opaque, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                     struct hvd_error *err)
{
    struct fence_wireup *state = opaque;
    return state->fence_server != NULL
               ? fence_server_get(state->fence_server, rank, key, blob, err)
               : fence_client_get(state->fence_client, rank, key, deadline_us, blob, err);
}

int fence_wireup_local_peers(void *opaque, int **ranksp, int *countp, struct hvd_error *err)
{
    struct fence_wireup *state = opaque;
    return state->fence_server != NULL ? fence_server_node_ranks(state->fence_server, ranksp, countp, err)
                                       : fence_client_node_ranks(state->fence_client, ranksp, countp, err);
}
