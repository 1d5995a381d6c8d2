/* adasum.c: an allreduce made of log2(members) pairwise exchanges. */
#include "flow/batch/adasum.h"

#include <string.h>

#include "backend/arith/reduce.h"
#include "base/dtype.h"
#include "flow/batch/layout.h"

/* The buffer holds two working vectors: this member's and the received one. */
static char *own_vector(const struct batch *batch)
{
    return batch->layout.buffer;
}

static char *their_vector(const struct batch *batch)
{
    return (char *)batch->layout.buffer + batch->layout.bytes;
}

static struct reduction reduction_of(const struct batch *batch)
{
    return (struct reduction){.dtype = batch->dtype,
                              .partial = batch->transfer.need.dtype,
                              .op = HVD_SUM,
                              .prescale = batch->transfer.prescale,
                              .postscale = batch->transfer.postscale,
                              .ranks = batch->set->members.size};
}

bool adasum_supports(int size)
{
    return size > 0 && (size & (size - 1)) == 0;
}

int adasum_plan(struct batch *batch, struct hvd_error *err)
{
    int64_t count = batch->tensors->count;
    int size = batch->set->members.size;
    if (!adasum_supports(size))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the ranks agreed on Adasum among %d members, which is not a power of two", size);
    bool too_much =
        __builtin_mul_overflow(count, (int64_t)dtype_bytes(batch->transfer.need.dtype), &batch->layout.bytes);
    if (too_much || __builtin_mul_overflow(batch->layout.bytes, 2, &batch->layout.buffer_bytes))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for two working vectors of %lld elements",
                         (long long)count);
    return HVD_OK;
}

void adasum_place(struct batch *batch, void *buffer)
{
    batch->layout.buffer = buffer;
    batch->transfer.counts = batch->counts.sent;
    batch->transfer.receive_counts = batch->counts.received;
    batch->transfer.input = own_vector(batch);
    batch->transfer.output = their_vector(batch);
    batch_adasum(batch)->level = 0;
    batch->stage = batch->tensors->count == 0 ? BATCH_DONE : BATCH_PACK;
    layout_rewind(batch, 0, 0, 0);
}

static int partner(const struct batch *batch)
{
    return batch->set->members.rank ^ (1 << batch_adasum(batch)->level);
}

/* Set up the next exchange, or unpack after the last. */
static void begin_level(struct batch *batch)
{
    int size = batch->set->members.size;
    int64_t count = batch->tensors->count;
    int level = batch_adasum(batch)->level;
    bool over = level >= 31 || 1 << level >= size;
    layout_rewind(batch, 0, 0, 0);
    if (over) {
        batch->stage = BATCH_UNPACK;
        return;
    }
    memset(batch->counts.sent, 0, (size_t)size * sizeof(*batch->counts.sent));
    memset(batch->counts.received, 0, (size_t)size * sizeof(*batch->counts.received));
    batch->counts.sent[partner(batch)] = batch->counts.received[partner(batch)] = count;
    batch->transfer.count = count;
    batch->stage = BATCH_START;
}

/* Where the next portion begins, in elements; *countp: how many it has. */
static int64_t next_portion(struct batch *batch, int64_t *countp)
{
    int64_t at = batch->layout.cursor.inside;
    int64_t left = batch->tensors->count - at;
    int64_t most = LAYOUT_PORTION_BYTES / (int64_t)dtype_bytes(batch->transfer.need.dtype);
    *countp = left < most ? left : most;
    batch->layout.cursor.inside = at + *countp;
    return at;
}

static bool at_end(const struct batch *batch)
{
    return batch->layout.cursor.inside == batch->tensors->count;
}

void adasum_pack(struct batch *batch)
{
    const struct request_tensor *tensor = batch->tensors;
    const struct reduction reduction = reduction_of(batch);
    int64_t work_bytes = (int64_t)dtype_bytes(batch->transfer.need.dtype);
    int64_t count = 0;
    int64_t at = next_portion(batch, &count);
    char *own = own_vector(batch) + at * work_bytes;
    if (tensor->request->placeholder)
        memset(own, 0, (size_t)(count * work_bytes));
    else
        reduce_begin(&reduction, own, (const char *)tensor->input + at * (int64_t)dtype_bytes(batch->dtype),
                     count);
    if (at_end(batch))
        begin_level(batch);
}

void adasum_transferred(struct batch *batch)
{
    struct batch_adasum *adasum = batch_adasum(batch);
    memset(adasum->dots, 0, sizeof(adasum->dots));
    adasum->has_dots = false;
    batch->stage = BATCH_COMBINE;
    layout_rewind(batch, 0, 0, 0);
}

/* 1 - a.b / (2 a.a); 1 for a vector of zeros. */
static double factor(double own_dot, double mixed_dot)
{
    return own_dot > 0 ? 1 - mixed_dot / (2 * own_dot) : 1;
}

void adasum_combine(struct batch *batch)
{
    struct batch_adasum *adasum = batch_adasum(batch);
    enum hvd_dtype dtype = batch->transfer.need.dtype;
    int64_t count = 0;
    int64_t at = next_portion(batch, &count) * (int64_t)dtype_bytes(dtype);
    bool upper = (batch->set->members.rank >> adasum->level & 1) != 0;
    char *own = own_vector(batch) + at;
    char *theirs = their_vector(batch) + at;
    const char *a = upper ? theirs : own;
    const char *b = upper ? own : theirs;
    if (!adasum->has_dots) {
        reduce_dots(dtype, a, b, count, adasum->dots);
    } else {
        const double factors[2] = {factor(adasum->dots[0], adasum->dots[2]),
                                   factor(adasum->dots[1], adasum->dots[2])};
        reduce_blend(dtype, own, a, b, factors, count);
    }
    if (!at_end(batch))
        return;
    if (!adasum->has_dots) {
        adasum->has_dots = true;
        layout_rewind(batch, 0, 0, 0);
        return;
    }
    adasum->level++;
    begin_level(batch);
}

void adasum_unpack(struct batch *batch)
{
    const struct request_tensor *tensor = batch->tensors;
    const struct reduction reduction = reduction_of(batch);
    int64_t count = 0;
    int64_t at = next_portion(batch, &count);
    if (!tensor->request->placeholder)
        reduce_finish(&reduction, (char *)tensor->output + at * (int64_t)dtype_bytes(batch->dtype),
                      own_vector(batch) + at * (int64_t)dtype_bytes(batch->transfer.need.dtype), count);
    if (at_end(batch))
        batch->stage = BATCH_DONE;
}
