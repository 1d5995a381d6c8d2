/* batch.c: operations that travel together: packing into one buffer, and out of it, in slices. */
#include "flow/batch.h"

#include <stdlib.h>
#include <string.h>

struct batch *batch_create(const struct request *request, int plane, int rank)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    bool broadcast = request->desc.kind == DESC_BROADCAST;
    batch->plane = plane;
    batch->tail = &batch->members;
    batch->travel.need.kind = broadcast ? PLANE_BROADCAST : PLANE_ALLREDUCE;
    batch->travel.need.dtype = request->desc.dtype;
    batch->travel.need.op = request->desc.op;
    batch->travel.root = request->desc.root;
    batch->at_root = broadcast && request->desc.root == rank;
    return batch;
}

void batch_free(struct batch *batch)
{
    free(batch);
}

void batch_add(struct batch *batch, struct request *request)
{
    request->next = NULL;
    *batch->tail = request;
    batch->tail = &request->next;
    batch->member_count++;
    batch->travel.count += request->count;
    batch->bytes += request->bytes;
}

bool batch_needs_buffer(const struct batch *batch)
{
    return batch->member_count > 1;
}

void batch_ready(struct batch *batch, void *buffer, uint64_t sequence)
{
    bool packed = batch_needs_buffer(batch);
    bool sends_input = batch->travel.need.kind == PLANE_ALLREDUCE || batch->at_root;
    batch->travel.sequence = sequence;
    batch->travel.input = packed ? buffer : batch->members->input;
    batch->travel.output = packed ? buffer : batch->members->output;
    batch->stage = batch->bytes == 0 ? BATCH_DONE : packed && sends_input ? BATCH_PACK : BATCH_START;
    batch->at = batch->members;
}

/* Move one slice between the members and the buffer; true when that was the last. */
static bool move_slice(struct batch *batch, bool pack)
{
    int64_t left = BATCH_SLICE_BYTES;
    while (batch->at != NULL && left > 0) {
        int64_t rest = batch->at->bytes - batch->inside_bytes;
        int64_t piece = rest < left ? rest : left;
        char *buffer = (char *)batch->travel.output + batch->buffer_bytes;
        if (pack)
            memcpy(buffer, (const char *)batch->at->input + batch->inside_bytes, (size_t)piece);
        else if (!batch->at_root || batch->at->output != batch->at->input)
            memcpy((char *)batch->at->output + batch->inside_bytes, buffer, (size_t)piece);
        left -= piece;
        batch->buffer_bytes += piece;
        batch->inside_bytes += piece;
        if (batch->inside_bytes == batch->at->bytes) {
            batch->inside_bytes = 0;
            batch->at = batch->at->next;
        }
    }
    return batch->at == NULL;
}

void batch_pack(struct batch *batch)
{
    if (move_slice(batch, true)) {
        batch->stage = BATCH_START;
        batch->at = batch->members;
        batch->buffer_bytes = 0;
    }
}

void batch_unpack(struct batch *batch)
{
    if (move_slice(batch, false))
        batch->stage = BATCH_DONE;
}
