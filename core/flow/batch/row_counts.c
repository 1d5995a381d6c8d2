/* row_counts.c: members tell each other how many rows they have; then results can be allocated. */
#include "flow/batch/row_counts.h"
#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

/* ---- The exchange ---- */

/* How many counts this rank sends: one for each tensor (allgather) or one for each member (alltoall). In
 * batch->counts.sizes the received ones follow: as many from each member, or one from each. */
static int own_count(const struct batch *batch)
{
    return batch->transfer.need.kind == COLL_ALLGATHER ? batch->tensor_count : batch->set->members.size;
}

static int write_own_counts(struct batch *batch, struct hvd_error *err)
{
    bool gathers = batch->transfer.need.kind == COLL_ALLGATHER;
    size_t own = (size_t)own_count(batch);
    size_t received = gathers ? own * (size_t)batch->set->members.size : own;
    batch->counts.sizes = calloc(own + received, sizeof(*batch->counts.sizes));
    if (batch->counts.sizes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the sizes of %d results",
                         batch->tensor_count);
    if (!gathers) {
        memcpy(batch->counts.sizes, batch->tensors->request->splits, own * sizeof(*batch->counts.sizes));
        return HVD_OK;
    }
    int i = 0;
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        batch->counts.sizes[i++] = tensor->rows;
    return HVD_OK;
}

int row_counts_exchange(struct batch *batch, struct hvd_error *err)
{
    int members = batch->set->members.size;
    int count = own_count(batch);
    bool gathers = batch->transfer.need.kind == COLL_ALLGATHER;
    int rc = write_own_counts(batch, err);
    if (rc != HVD_OK)
        return rc;
    batch->counts.exchanging = true;
    batch->stage = BATCH_START;
    batch->transfer.need.dtype = batch->transfer.need.partial = HVD_INT64;
    batch->transfer.input = batch->counts.sizes;
    batch->transfer.output = batch->counts.sizes + count;
    for (int member = 0; member < members; member++) {
        batch->counts.sent[member] = gathers ? count : 1;
        if (!gathers)
            batch->counts.received[member] = 1;
    }
    batch->transfer.count = (int64_t)count * (gathers ? members : 1);
    batch->transfer.counts = batch->counts.sent;
    batch->transfer.receive_counts = gathers ? NULL : batch->counts.received;
    return HVD_OK;
}

/* ---- The check ---- */

static int bad_rows_error(const struct batch *batch, const struct request_tensor *tensor, int member,
                          int64_t rows, struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    desc_title(tensor->request->desc, title, sizeof(title));
    return error_set(err, HVD_ERR_SYSTEM,
                     "%s: rank %d says that it has %lld rows of \"%s\", which is impossible; it runs another "
                     "version or is broken",
                     title, batch->set->members.ranks[member], (long long)rows,
                     tensor->request->desc->tensors[tensor->index].name);
}

/* Check the rows that each member has of [tensor], number [column] of the batch, and keep them. */
static int check_rows(const struct batch *batch, struct request_tensor *tensor, int column,
                      struct hvd_error *err)
{
    const struct team *members = &batch->set->members;
    bool gathers = batch->transfer.need.kind == COLL_ALLGATHER;
    const int64_t *received = batch->counts.sizes + own_count(batch);
    int64_t rows = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
    tensor->member_rows = calloc((size_t)members->size, sizeof(*tensor->member_rows));
    if (tensor->member_rows == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the sizes of %d members", members->size);
    for (int member = 0; member < members->size; member++) {
        int64_t claimed =
            gathers ? received[(int64_t)member * batch->tensor_count + column] : received[member];
        /* this rank's own count came back through other ranks: it does not have to trust them */
        if (member == members->rank)
            claimed = gathers ? tensor->rows : batch->counts.sizes[member];
        bool bad = claimed < 0 || __builtin_add_overflow(rows, claimed, &rows);
        if (!bad && rows > 0)
            bad = tensor->row_elements < 0 || __builtin_mul_overflow(rows, tensor->row_elements, &elements) ||
                  __builtin_mul_overflow(elements, (int64_t)dtype_bytes(batch->dtype), &bytes);
        if (bad)
            return bad_rows_error(batch, tensor, member, claimed, err);
        tensor->member_rows[member] = claimed;
    }
    if (tensor->row_elements < 0)
        tensor->row_elements = 0;
    return HVD_OK;
}

static int64_t result_rows(const struct batch *batch, const struct request_tensor *tensor)
{
    int64_t rows = 0;
    for (int member = 0; member < batch->set->members.size; member++)
        rows += tensor->member_rows[member];
    return rows;
}

static int64_t result_bytes(const struct batch *batch, const struct request_tensor *tensor)
{
    return result_rows(batch, tensor) * tensor->row_elements * (int64_t)dtype_bytes(batch->dtype);
}

/* Move the tensors from the first one that exceeds the threshold on to a batch of their own. */
static int split_batch(struct batch *batch, int64_t threshold_bytes, struct batch **restp,
                       struct hvd_error *err)
{
    struct request_tensor *tensor = batch->tensors->next;
    int64_t left_bytes = threshold_bytes - result_bytes(batch, batch->tensors);
    struct request_tensor **end = &batch->tensors->next;
    int kept = 1;
    while (tensor != NULL && result_bytes(batch, tensor) <= left_bytes) {
        left_bytes -= result_bytes(batch, tensor);
        end = &tensor->next;
        tensor = tensor->next;
        kept++;
    }
    *restp = NULL;
    if (tensor == NULL)
        return HVD_OK;
    int rc = batch_split(batch, end, kept, restp, err);
    if (rc == HVD_OK)
        (*restp)->stage = batch->gpu == NULL            ? BATCH_LAY_OUT
                          : batch_direct(batch) != NULL ? BATCH_CONNECT
                                                        : BATCH_FETCH;
    return rc;
}

int row_counts_apply(struct batch *batch, int64_t threshold_bytes, struct batch **restp,
                     struct hvd_error *err)
{
    int column = 0;
    int rc = HVD_OK;
    *restp = NULL;
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL && rc == HVD_OK;
         tensor = tensor->next)
        rc = check_rows(batch, tensor, column++, err);
    if (rc != HVD_OK)
        return rc;
    free(batch->counts.sizes);
    batch->counts.sizes = NULL;
    batch->counts.exchanging = false;
    batch->transfer.need.dtype = batch->transfer.need.partial = batch->dtype;
    batch->stage = BATCH_LAY_OUT;
    return split_batch(batch, threshold_bytes, restp, err);
}

/* ---- Memory ---- */

static void allocate_result(struct batch *batch, struct request_tensor *tensor)
{
    struct hvd_result *result = tensor->result;
    int64_t bytes = result_bytes(batch, tensor);
    if (bytes == 0)
        return;
    tensor->owned = result->allocate == NULL;
    tensor->output = tensor->owned ? malloc((size_t)bytes) : result->allocate(bytes, result->arg);
    if (tensor->output != NULL)
        return;
    struct hvd_error reason;
    error_set(&reason, HVD_ERR_NO_MEMORY,
              "this rank has no memory for the %lld bytes of the result of \"%s\"", (long long)bytes,
              tensor->request->desc->tensors[tensor->index].name);
    request_fail(tensor->request, HVD_ERR_NO_MEMORY, reason.text);
}

void row_counts_allocate(struct batch *batch)
{
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
        struct hvd_result *result = tensor->result;
        tensor->result_rows = result_rows(batch, tensor);
        if (result->rows != NULL)
            memcpy(result->rows, tensor->member_rows,
                   (size_t)batch->set->members.size * sizeof(*result->rows));
        allocate_result(batch, tensor);
    }
}
