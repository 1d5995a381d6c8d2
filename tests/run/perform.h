/* perform.h: one operation of a plan on this rank: its memory, its submission, and the check of its result.
 */
#ifndef TESTS_RUN_PERFORM_H
#define TESTS_RUN_PERFORM_H

#include <stdatomic.h>

#include "op_plan.h"

/* Print what is wrong with [op] (or NULL) and how to reproduce it, and exit with 1. */
void perform_fail(const struct op_plan *plan, const struct plan_op *op, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* The input and the output of a tensor. */
struct op_memory {
    char *in_block, *out_block;
    char *input, *output;
    bool given;                  /* the blocks are memory of hvd_alloc */
    char *gpu_in, *gpu_out;      /* PROPERTY_GPU: the blocks on the GPU, for which those above stand */
    int64_t in_bytes, out_bytes; /* without the guards before and after the tensor */
    struct hvd_result result;
    int64_t rows[PLAN_MAX_RANKS];
    int allocated; /* calls of result.allocate */
};

struct op_run {
    const struct op_plan *plan;
    const struct plan_op *op;
    struct op_memory memory[PLAN_MAX_GROUP];
    struct hvd_tensor tensors[PLAN_MAX_GROUP];
    struct hvd_result results[PLAN_MAX_GROUP]; /* as an array, for the library */
    int64_t splits[PLAN_MAX_RANKS];
    bool has_splits, has_options;
    struct hvd_options options;
    hvd_handle handle; /* 0: none */
    bool finished;
    _Atomic int calls;  /* how often its callback was called */
    _Atomic int status; /* passed to the callback */
    uint64_t hash;      /* when finished: of the result, if it is the same on all members */
    /* used by the caller only */
    struct op_run *next; /* submitted by the callback of this one, or after it by the same thread */
    bool next_in_callback;
    bool in_callback; /* this one is submitted by the callback of the one before it */
    bool follows;     /* this one is submitted after the one before it, by the same thread */
    bool waits;       /* the thread blocks in its submission, or waits right after it */
    bool has_callback;
    int lane;
};

/* Initialise [work]. [draws] decides what may differ between ranks. */
void perform_prepare(struct op_run *work, const struct op_plan *plan, const struct plan_op *op,
                     struct random_stream *draws);

/* The blocking call; and the asynchronous one, with a handle if [handle], and a callback if [done] is not
 * NULL. */
enum hvd_status perform_plain(struct op_run *work);
enum hvd_status perform_async(struct op_run *work, bool handle, hvd_done_f done);

/* The operation is done: check the result, and free its memory. */
void perform_finish(struct op_run *work);

/* A hash of [data], combined with [hash]. */
uint64_t perform_hash(uint64_t hash, const void *data, int64_t bytes);

#endif
