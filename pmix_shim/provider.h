/* provider.h: which provider of wire-up a process has, decided from its environment. */
#ifndef PMIX_SHIM_PROVIDER_H
#define PMIX_SHIM_PROVIDER_H

#include "bootstrap/wireup.h"

enum provider { PROVIDER_PMIX, PROVIDER_ENV, PROVIDER_SINGLETON };

/* Which one [environment] ("NAME=value" strings, NULL-terminated) asks for. PROVIDER_SINGLETON only where
 * nothing says that the job has more ranks. Pure; HVD_OK, or HVD_ERR_INVALID with *providerp unchanged. */
int provider_choose(char *const *environment, enum provider *providerp, struct hvd_error *err);

/* [provider] found a job of one rank: HVD_ERR_INVALID with cause and mend where [environment] says it has
 * more. Pure. */
int provider_check_single(char *const *environment, enum provider provider, struct hvd_error *err);

/* HVD_EPOCH of [environment], 0 where it is not set. Pure. */
int provider_read_epoch(char *const *environment, uint32_t *epochp, struct hvd_error *err);

/* The providers: open finds job->epoch and job->host filled in and fills the rest, host too where it knows
 * better. */
extern const struct wireup_ops
    wireup_env_ops; /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and HVD_JOB_KEY */
extern const struct wireup_ops wireup_singleton_ops; /* one rank; the contract in readable form */

#endif
