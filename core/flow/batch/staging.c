/* staging.c: tensors on the GPU that a backend of host memory carries, through pinned memory. */
#include "flow/batch/staging.h"

#include "base/cpu.h"
#include "base/dtype.h"
#include "base/round_up.h"
#include "flow/batch/layout.h"

/* ---- Not too much at once --------------------------------------------------------------------- */

/* How long a batch may be. Nothing is at work while the first one is copied from the GPU, and the last one
 * back, and what lies on its way between should still be in the caches: the shorter they are, the better. But
 * each takes its time to begin. */
#define LIMIT_BYTES (INT64_C(2) << 20)

/* In other collectives each member has a part of its own, of which each batch would need some. */
static bool can_be_cut(const struct batch *batch)
{
    enum backend_kind kind = batch->transfer.need.kind;
    return kind == COLL_ALLREDUCE || kind == COLL_BROADCAST;
}

/* Of the tensor [*end] of the batch, let the first [count] elements be one tensor and the rest another. */
static int cut_tensor(struct batch *batch, struct request_tensor **end, int64_t count, struct hvd_error *err)
{
    struct request_tensor *behind = (*end)->next;
    struct request_tensor *front = request_cut(*end, count, (int64_t)dtype_bytes(batch->dtype));
    if (front == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
    *end = front;
    front->next->next = behind;
    if (behind == NULL)
        batch->tail = &front->next->next;
    batch->tensor_count++;
    return HVD_OK;
}

int staging_cut(struct batch *batch, struct batch **restp, struct hvd_error *err)
{
    int64_t limit = LIMIT_BYTES / (int64_t)dtype_bytes(batch->dtype);
    int64_t left = limit;
    int kept = 0;
    struct request_tensor **end = &batch->tensors;
    *restp = NULL;
    if (!can_be_cut(batch) || batch->transfer.count <= limit)
        return HVD_OK;
    for (; (*end)->count <= left; end = &(*end)->next) {
        left -= (*end)->count;
        kept++;
    }
    if (left > 0) {
        int rc = cut_tensor(batch, end, left, err);
        if (rc != HVD_OK)
            return rc;
        end = &(*end)->next;
        kept++;
    }
    int rc = batch_split(batch, end, kept, restp, err);
    if (rc != HVD_OK)
        return rc;
    (*restp)->stage = BATCH_FETCH;
    (*restp)->transfer.count = batch->transfer.count - limit;
    batch->transfer.count = limit;
    return HVD_OK;
}

/* ---- To the host ------------------------------------------------------------------------------ */

/* Does the operation read this rank's input? */
static bool reads(const struct batch *batch)
{
    return batch->transfer.need.kind != COLL_BROADCAST || batch->at_root;
}

static bool is_in_place(const struct request_tensor *tensor)
{
    return tensor->input == tensor->output;
}

/* The host memory of one tensor's input, and of its output where that is not the input. */
static int64_t tensor_bytes(const struct request_tensor *tensor)
{
    bool two = tensor->output != NULL && !is_in_place(tensor);
    return round_up(tensor->bytes, CACHE_LINE_BYTES) * (two ? 2 : 1);
}

/* Where all tensors are empty there is no memory. */
static char *memory_after(char *memory, int64_t bytes)
{
    return bytes > 0 ? memory + bytes : memory;
}

/* Copy the input to [memory], and let the batch take that for the tensor. */
static int fetch_tensor(struct batch *batch, struct request_tensor *tensor, char *memory,
                        struct hvd_error *err)
{
    bool in_place = is_in_place(tensor);
    tensor->gpu_input = tensor->input;
    tensor->gpu_output = tensor->output;
    tensor->staged = true;
    tensor->input = memory;
    if (tensor->output != NULL)
        tensor->output = in_place ? memory : memory_after(memory, round_up(tensor->bytes, CACHE_LINE_BYTES));
    return reads(batch) ? gpu_fetch(batch->gpu, memory, tensor->gpu_input, tensor->bytes, err) : HVD_OK;
}

/* Copies come after what the program had put into its stream. */
static int await_request(struct batch *batch, const struct request_tensor *tensor,
                         const struct request *previous, struct hvd_error *err)
{
    const struct request *request = tensor->request;
    if (request == previous || request->ready == NULL)
        return HVD_OK;
    return gpu_await(batch->gpu, request->ready, err);
}

bool staging_can_hand(const struct batch *batch)
{
    enum backend_kind kind = batch->transfer.need.kind;
    return batch->tensor_count == 1 && batch->route != ROUTE_ADASUM && !coll_reduces(kind);
}

static int end_fetch(struct batch *batch, struct hvd_error *err)
{
    gpu_event_release(batch->event);
    batch->event = NULL;
    return gpu_mark_own(batch->gpu, &batch->event, err);
}

int staging_fetch(struct batch *batch, struct hvd_error *err)
{
    const struct request *previous = NULL;
    char *memory = NULL;
    int64_t bytes = 0;
    staging_return(batch); /* tensors that were cut off from an earlier batch may be in its memory */
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        bytes += tensor_bytes(tensor);
    int rc =
        batch_host(batch)->handed
            ? await_request(batch, batch->tensors, NULL, err)
            : gpu_host_block(batch->gpu, GPU_BLOCK_TENSORS + batch_host(batch)->side, bytes, &memory, err);
    if (batch_host(batch)->handed)
        return rc == HVD_OK ? end_fetch(batch, err) : rc;
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL && rc == HVD_OK;
         tensor = tensor->next) {
        if (tensor->request->placeholder)
            continue;
        int64_t used = tensor_bytes(tensor);
        rc = await_request(batch, tensor, previous, err);
        if (rc == HVD_OK)
            rc = fetch_tensor(batch, tensor, memory, err);
        previous = tensor->request;
        memory = memory_after(memory, used);
    }
    return rc == HVD_OK ? end_fetch(batch, err) : rc;
}

/* ---- Back to the GPU -------------------------------------------------------------------------- */

static int64_t result_bytes(const struct batch *batch, const struct request_tensor *tensor)
{
    return tensor->result_rows * tensor->row_elements * (int64_t)dtype_bytes(batch->dtype);
}

int staging_place_results(struct batch *batch, struct hvd_error *err)
{
    char *memory = NULL;
    int64_t bytes = 0;
    for (const struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        bytes += round_up(result_bytes(batch, tensor), CACHE_LINE_BYTES);
    int rc = gpu_host_block(batch->gpu, GPU_BLOCK_RESULTS + batch_host(batch)->side, bytes, &memory, err);
    if (rc != HVD_OK)
        return rc;
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next) {
        tensor->gpu_output = tensor->output;
        if (tensor->output != NULL)
            tensor->output = memory;
        memory = memory_after(memory, round_up(result_bytes(batch, tensor), CACHE_LINE_BYTES));
    }
    return HVD_OK;
}

/* The bytes of the result at this rank. */
static int64_t output_bytes(const struct batch *batch, const struct request_tensor *tensor)
{
    if (tensor->result != NULL)
        return result_bytes(batch, tensor);
    return layout_part_elements(batch, tensor, batch->set->members.rank) * (int64_t)dtype_bytes(batch->dtype);
}

static void return_tensor(struct request_tensor *tensor)
{
    if (!tensor->staged)
        return;
    tensor->input = tensor->gpu_input;
    tensor->output = tensor->gpu_output;
    tensor->staged = false;
}

void staging_return(struct batch *batch)
{
    for (struct request_tensor *tensor = batch->tensors; tensor != NULL; tensor = tensor->next)
        return_tensor(tensor);
}

/* Handed: this rank's own part of the result, which is in its input. */
static int store_own(const struct batch *batch, struct hvd_error *err)
{
    const struct request_tensor *tensor = batch->tensors;
    int rank = batch->set->members.rank;
    int64_t element_bytes = (int64_t)dtype_bytes(batch->dtype);
    int64_t from = 0;
    int64_t to = 0;
    int64_t bytes = tensor->bytes;
    if (batch->transfer.need.kind == COLL_ALLGATHER)
        to = layout_own_offset(batch) * element_bytes;
    for (int member = 0; batch->counts.received != NULL && member < rank; member++)
        to += batch->counts.received[member] * element_bytes;
    if (batch->counts.received != NULL) {
        from = layout_own_offset(batch) * element_bytes;
        bytes = batch->counts.sent[rank] * element_bytes;
    }
    if (tensor->output == NULL || is_in_place(tensor) || !reads(batch))
        return HVD_OK;
    return gpu_store(batch->gpu, (char *)tensor->output + to, (const char *)tensor->input + from, bytes, err);
}

int staging_store(struct batch *batch, struct hvd_error *err)
{
    int rc = batch_host(batch)->handed ? store_own(batch, err) : HVD_OK;
    for (struct request_tensor *tensor = batch->tensors;
         tensor != NULL && rc == HVD_OK && !batch_host(batch)->handed; tensor = tensor->next) {
        const void *from = tensor->output;
        return_tensor(tensor);
        if (from != NULL && from != tensor->output && !(batch->at_root && is_in_place(tensor)))
            rc = gpu_store(batch->gpu, tensor->output, from, output_bytes(batch, tensor), err);
    }
    gpu_event_release(batch->event);
    batch->event = NULL;
    return rc == HVD_OK ? gpu_mark_stored(batch->gpu, &batch->event, err) : rc;
}
