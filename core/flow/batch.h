/* batch.h: operations that travel together: packing into one buffer, and out of it, in slices. */
#ifndef FLOW_BATCH_H
#define FLOW_BATCH_H

#include "flow/queue.h"
#include "plane/plane.h"

/* Packing and unpacking move at most this much at a time, about 100 us of copying, so that agreement stays
 * prompt. */
#define BATCH_SLICE_BYTES (INT64_C(512) << 10)

struct batch {
    struct batch *next;
    enum { BATCH_PACK, BATCH_START, BATCH_RUN, BATCH_UNPACK, BATCH_DONE } stage;
    struct plane_batch travel; /* what the plane gets */
    int plane;                 /* -1: nothing travels */
    struct request *members, **tail;
    int member_count;
    int64_t bytes;        /* of all members */
    bool at_root;         /* broadcast: this rank's input is what is sent */
    struct request *at;   /* packing or unpacking: this member next, */
    int64_t inside_bytes; /* from here in it, */
    int64_t buffer_bytes; /* to or from here in the buffer */
};

/* An empty batch for operations like [request]; NULL where memory is out. */
struct batch *batch_create(const struct request *request, int plane, int rank);
void batch_free(struct batch *batch); /* not its members */

/* Members travel in the order of adding. */
void batch_add(struct batch *batch, struct request *request);

/* All members are added. [buffer]: where more than one are packed; unused (may be NULL) for a batch of one.
 */
bool batch_needs_buffer(const struct batch *batch);
void batch_ready(struct batch *batch, void *buffer, uint64_t sequence);

/* One slice of packing or unpacking: on to the next stage where it was the last. */
void batch_pack(struct batch *batch);
void batch_unpack(struct batch *batch);

#endif
