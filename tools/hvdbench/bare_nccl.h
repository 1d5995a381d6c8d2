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

/* Collective: a second communicator of all ranks, made by splitting the first, or anew. It must be
 * disconnected before the first is closed. */
int bare_nccl_split(const struct bare_nccl *bare, struct bench *bench, struct bare_nccl *second,
                    struct hvd_error *err);
int bare_nccl_connect(const struct bare_nccl *bare, struct bench *bench, struct bare_nccl *second,
                      struct hvd_error *err);
void bare_nccl_disconnect(struct bare_nccl *second);

/* Elements that are summed: float32 or int32. */
struct bare_load {
    const void *input;
    void *output;
    int64_t count;
    enum hvd_dtype dtype;
};

/* Put a sum into [stream]. */
int bare_nccl_sum(const struct bare_nccl *bare, const struct bare_load *load, struct CUstream_st *stream,
                  struct hvd_error *err);

#endif
