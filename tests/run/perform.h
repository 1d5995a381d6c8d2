/* perform.h: one operation of a plan on this rank: its memory, its submission, and the look at its result. */
#ifndef PERFORM_H
#define PERFORM_H

#include <stdatomic.h>

#include "op_plan.h"

/* Say what is wrong with [op] (or NULL) and how to see it again; exits 1. */
void perform_fail(const struct op_plan *plan, const struct plan_op *op, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* What is handed in for a tensor, and what comes back. */
struct op_memory {
    char *in_block, *out_block;
    char *input, *output;
    bool given;                  /* by hvd_alloc */
    int64_t in_bytes, out_bytes; /* of tensors; before and behind them are guards */
    struct hvd_result result;
    int64_t rows[PLAN_MAX_RANKS];
    int allocated; /* calls of result.allocate */
};

struct op_run {
    const struct op_plan *plan;
    const struct plan_op *op;
    struct op_memory memory[PLAN_MAX_GROUP];
    struct hvd_tensor tensors[PLAN_MAX_GROUP];
    struct hvd_result results[PLAN_MAX_GROUP]; /* as the library wants them: in a row */
    int64_t splits[PLAN_MAX_RANKS];
    bool has_splits, has_options;
    struct hvd_options options;
    hvd_handle handle; /* 0: none */
    bool finished;
    _Atomic int calls;  /* of its callback */
    _Atomic int status; /* that the callback got */
    uint64_t hash;      /* of a result that all members have, when finished */
    /* the caller's own */
    struct op_run *next; /* is submitted in the callback of this one, or behind it in its thread */
    bool next_in_callback;
    bool in_callback; /* is submitted by the one before it */
    bool follows;     /* or behind it */
    bool waits;       /* its submission, or a wait right behind it */
    bool has_callback;
    int lane;
};

/* Zeroes and fills it; [draws] decides what may differ between ranks. */
void perform_prepare(struct op_run *work, const struct op_plan *plan, const struct plan_op *op,
                     struct random_stream *draws);

/* The plain call, or with a handle (where [handle]) and a callback (where [done] is not NULL). */
enum hvd_status perform_plain(struct op_run *work);
enum hvd_status perform_async(struct op_run *work, bool handle, hvd_done_f done);

/* It is done: look at the result, and free everything. */
void perform_finish(struct op_run *work);

/* A reading of memory that differs where a byte differs. */
uint64_t perform_hash(uint64_t hash, const void *data, int64_t bytes);

#endif
