/* fence_wireup.h: wire-up by a fence at rank 0, for the providers that know where rank 0 listens and share a
 * key with it: env.c and reunion.c. */
#ifndef PMIX_SHIM_FENCE_WIREUP_H
#define PMIX_SHIM_FENCE_WIREUP_H

#include "bootstrap/wireup.h"
#include "pmix_shim/env_fence.h"

/* [where] says where rank 0 is met, and the key; it is copied. The ranks are those of [job]. The rest is as
 * in struct wireup_ops. */
int fence_wireup_open(const struct env_job *where, const struct hvd_job *job, int64_t deadline_us,
                      void **statep, struct hvd_error *err);
int fence_wireup_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err);
int fence_wireup_fence(void *state, int64_t deadline_us, struct hvd_error *err);
int fence_wireup_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                     struct hvd_error *err);
int fence_wireup_local_peers(void *state, int **ranksp, int *countp, struct hvd_error *err);
void fence_wireup_close(void *state);

#endif
