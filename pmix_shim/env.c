/* env.c: the provider for jobs that only the environment describes, as torchrun and many scripts do: RANK,
 * WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and HVD_JOB_KEY, a secret that all ranks share. jsrun's tasks have
 * JSM_NAMESPACE_RANK and JSM_NAMESPACE_SIZE in place of the first two. */
#include "config.h"
#include "pmix_shim/provider.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/secret_key.h"
#include "base/secret.h"
#include "pmix_shim/env_fence.h"
#include "pmix_shim/node_ranks.h"

struct env_state {
    struct env_job job;
    struct store *store;
    struct fence_server *fence_server; /* on rank 0, else NULL */
    struct fence_client *fence_client; /* on all other ranks, else NULL */
};

static const char reason[] = "WORLD_SIZE says that the job has several ranks";
static const char mend[] =
    "give RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and HVD_JOB_KEY to each rank, or use "
    "srun --mpi=pmix or hvdrun";

static int read_ranks(struct hvd_job *job, struct hvd_error *err)
{
    enum { SIZE, RANK, LOCAL_SIZE, LOCAL_RANK };
    static const char *const of_torchrun[] = {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"};
    static const char *const of_jsrun[] = {"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK",
                                           "JSM_NAMESPACE_LOCAL_SIZE", "JSM_NAMESPACE_LOCAL_RANK"};
    const char *const *names =
        getenv(of_torchrun[SIZE]) == NULL && getenv(of_jsrun[SIZE]) != NULL ? of_jsrun : of_torchrun;
    struct launch_number size = {names[SIZE], 1, LAUNCH_MOST_RANKS, reason, mend};
    int rc = launch_number_read(&size, &job->size, err);
    struct launch_number rank = {names[RANK], 0, job->size - 1, reason, mend};
    if (rc == HVD_OK)
        rc = launch_number_read(&rank, &job->rank, err);
    struct launch_number local_size = {names[LOCAL_SIZE], 1, job->size, NULL, NULL};
    if (rc == HVD_OK)
        rc = launch_number_read(&local_size, &job->local_size, err);
    struct launch_number local_rank = {names[LOCAL_RANK], 0,
                                       job->local_size > 0 ? job->local_size - 1 : job->size - 1, NULL, NULL};
    if (rc == HVD_OK)
        rc = launch_number_read(&local_rank, &job->local_rank, err);
    return rc;
}

/* Where torchrun keeps a store for its workers, that listens at MASTER_PORT, and it says so. */
static bool port_is_torchruns(void)
{
    const char *says = getenv("TORCHELASTIC_USE_AGENT_STORE");
    return says != NULL && strcmp(says, "True") == 0;
}

static int read_master(struct env_job *job, struct hvd_error *err)
{
    bool next = port_is_torchruns();
    const struct launch_number number = {"MASTER_PORT", 1, 65535 - next, reason, mend};
    int port = 0;
    const char *host = getenv("MASTER_ADDR");
    int rc = launch_number_read(&number, &port, err);
    if (rc != HVD_OK)
        return rc;
    if (host == NULL || host[0] == 0 || strlen(host) >= sizeof(job->master_host))
        return error_set(err, HVD_ERR_INVALID,
                         "MASTER_ADDR=%.64s: expected the name or address of rank 0's node",
                         host != NULL ? host : "");
    snprintf(job->master_host, sizeof(job->master_host), "%s", host);
    snprintf(job->master_port, sizeof(job->master_port), "%d", port + next);
    job->port_from = next ? "MASTER_PORT + 1, as torchrun has MASTER_PORT itself" : "MASTER_PORT";
    return HVD_OK;
}

static int read_key(unsigned char *key, struct hvd_error *err)
{
    const char *text = secret_of_job(NULL);
    int rc = secret_key_check(text, err);
    if (rc == HVD_OK)
        secret_key_derive(text, key);
    return rc;
}

static void env_close(void *opaque)
{
    struct env_state *state = opaque;
    if (state == NULL)
        return;
    fence_server_close(state->fence_server);
    fence_client_close(state->fence_client);
    store_destroy(state->store);
    sodium_memzero(state, sizeof(*state));
    free(state);
}

static int env_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                    struct hvd_job *job, void **statep, struct hvd_error *err)
{
    (void)config;
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised");
    struct env_state *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    int rc = read_ranks(job, err);
    if (rc == HVD_OK)
        rc = read_master(&state->job, err);
    if (rc == HVD_OK)
        rc = read_key(state->job.key, err);
    if (rc != HVD_OK)
        goto fail;
    state->job.rank = job->rank;
    state->job.size = job->size;
    state->job.epoch = job->epoch;
    state->job.log = log;
    state->store = store_create(job->size);
    if (state->store == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
        goto fail;
    }
    rc = node_ranks_put(state->store, err);
    if (rc != HVD_OK)
        goto fail;
    rc = job->rank == 0 ? fence_server_open(&state->fence_server, &state->job, state->store, err)
                        : fence_client_open(&state->fence_client, &state->job, deadline_us, err);
    if (rc != HVD_OK)
        goto fail;
    *statep = state;
    return HVD_OK;
fail:
    env_close(state);
    return rc;
}

static int env_put(void *opaque, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    struct env_state *state = opaque;
    return store_put(state->store, key, bytes, length, err);
}

static int env_fence(void *opaque, int64_t deadline_us, struct hvd_error *err)
{
    struct env_state *state = opaque;
    return state->fence_server != NULL
               ? fence_server_fence(state->fence_server, deadline_us, err)
               : fence_client_fence(state->fence_client, state->store, deadline_us, err);
}

static int env_get(void *opaque, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                   struct hvd_error *err)
{
    struct env_state *state = opaque;
    return state->fence_server != NULL
               ? fence_server_get(state->fence_server, rank, key, blob, err)
               : fence_client_get(state->fence_client, rank, key, deadline_us, blob, err);
}

static int env_local_peers(void *opaque, int **ranksp, int *countp, struct hvd_error *err)
{
    struct env_state *state = opaque;
    return state->fence_server != NULL ? fence_server_node_ranks(state->fence_server, ranksp, countp, err)
                                       : fence_client_node_ranks(state->fence_client, ranksp, countp, err);
}

const struct wireup_ops wireup_env_ops = {.name = "env",
                                          .open = env_open,
                                          .put = env_put,
                                          .fence = env_fence,
                                          .get = env_get,
                                          .local_peers = env_local_peers,
                                          .close = env_close};
