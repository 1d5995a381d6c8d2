/* bare_nccl.h: a communicator of NCCL beside hvd's, as a program would make it that calls NCCL by itself.
 * Needs NCCL's header. */
#ifndef TOOLS_HVDBENCH_BARE_NCCL_H
#define TOOLS_HVDBENCH_BARE_NCCL_H

#include "backend/nccl/nccl_calls.h"
#include "tools/hvdbench/job.h"

/* Zero it first. */
struct bare_nccl {
    struct nccl *nccl;
    ncclComm_t comm;
};

/* Collective: load [library] ("": the usual one) and connect all ranks, each with the current device of its
 * thread. It succeeds on all ranks or on none. */
int bare_nccl_open(struct bare_nccl *bare, struct bench *bench, const char *library, struct hvd_error *err);

/* Collective. */
void bare_nccl_close(struct bare_nccl *bare);

/* Put a sum of [count] float32 into [stream]. */
int bare_nccl_sum(const struct bare_nccl *bare, const void *input, void *output, int64_t count,
                  struct CUstream_st *stream, struct hvd_error *err);

#endif
