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
#include "pmix_shim/fence_wireup.h"

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
    job->must_agree = "HVD_JOB_KEY, HVD_EPOCH, MASTER_ADDR and MASTER_PORT must be the same on all ranks";
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

static int env_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                    struct hvd_job *job, void **statep, struct hvd_error *err)
{
    (void)config;
    struct env_job env_job = {.log = log, .runs = slurm_launches_job(NULL)};
    int rc = read_ranks(job, err);
    if (rc == HVD_OK)
        rc = read_master(&env_job, err);
    if (rc == HVD_OK)
        rc = read_key(env_job.key, err);
    if (rc == HVD_OK)
        rc = fence_wireup_open(&env_job, job, deadline_us, statep, err);
    sodium_memzero(&env_job, sizeof(env_job));
    return rc;
}

const struct wireup_ops wireup_env_ops = {.name = "env",
                                          .open = env_open,
                                          .put = fence_wireup_put,
                                          .fence = fence_wireup_fence,
                                          .get = fence_wireup_get,
                                          .local_peers = fence_wireup_local_peers,
                                          .close = fence_wireup_close};
