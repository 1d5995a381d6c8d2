/* batch.h: operations that transfer together: packing into one buffer, and out of it, in slices. */
#ifndef FLOW_BATCH_H
#define FLOW_BATCH_H

#include "flow/tensor_queue.h"
#include "backend/backends.h"

/* Packing and unpacking move at most this much at a time, about 100 us of copying, so that agreement stays
 * prompt. */
#define BATCH_SLICE_BYTES (INT64_C(512) << 10)

/* What a batch has to go through next, in this order. No batch goes through all. */
enum batch_stage {
    BATCH_ROW_COUNTS, /* allgather, alltoall: ask the other members how many rows they have (sizes.h) */
    BATCH_LAY_OUT,    /* find its memory */
    BATCH_PACK,
    BATCH_START,
    BATCH_RUN,
    BATCH_COMBINE, /* between two exchanges of Adasum (adasum.h) */
    BATCH_UNPACK,
    BATCH_DONE,
    /* these two take their turn among the batches, but carry nothing */
    BATCH_SET_ADD,
    BATCH_SET_REMOVE
};

/* How far packing, unpacking or combining has come. What is in the buffer are parts, and of each part all
 * tensors: a part is what belongs to one member (reducescatter, allgather), or else all there is. */
struct batch_cursor {
    struct request_tensor *tensor; /* NULL: at the end */
    int part, last_part;
    int64_t inside;    /* elements of this tensor's part that are done */
    int64_t buffer_at; /* in elements */
};

struct batch {
    struct batch *next;
    enum batch_stage stage;
    struct process_set *team; /* SET_REMOVE: owned, NULL where this rank is no member; otherwise borrowed */
    struct backend_batch transfer; /* what the backend gets */
    int backend;                   /* -1: nothing travels */
    struct request_tensor *tensors, **tail;
    int tensor_count;
    int64_t bytes;              /* of all tensors, as they transfer */
    int64_t fusion_bytes;       /* it is not to hold more: in force when it was decided */
    enum hvd_dtype dtype;       /* of the tensors; what travels may be another */
    bool at_root;               /* a broadcast from here */
    bool all_local;             /* each tensor is in this rank's memory, and has elements */
    bool exchanging_counts;     /* what travels are the sizes */
    bool packed;                /* what is sent goes through the buffer */
    bool unpacked;              /* what comes goes through the buffer */
    int64_t *sizes;             /* while it is exchanging_counts: this rank's, then those that came; owned */
    int64_t *sent;              /* elements for, or of, each member where the kind has such; owned */
    int64_t *received;          /* alltoall: elements from each member; owned */
    struct backend_span *spans; /* instead of the buffer; owned */
    int64_t buffer_bytes;       /* of the buffer that it needs */
    void *buffer;
    struct batch_cursor cursor;
    bool adasum;    /* an allreduce that is made of exchanges */
    int level;      /* of Adasum: done so many */
    bool has_dots;  /* Adasum: those of this level are complete */
    double dots[3]; /* a.a, b.b, a.b */
    /* SET_ADD, SET_REMOVE */
    struct request *request;
    hvd_set set;
    uint32_t backends; /* SET_ADD: those that all ranks have */
};

/* What a backend must be able to carry for tensor [index] of [desc] among [ranks] members; for allgather and
 * alltoall the same of HVD_INT64 too. */
struct backend_need batch_need(const struct desc *desc, int index, int ranks);

/* Bytes of [tensor] as they transfer, equal on all ranks: what fusion counts. Of an allgather, whose ranks
 * have still to tell each other, those of one row. */
int64_t batch_tensor_bytes(const struct request_tensor *tensor);

/* Elements of a row of tensor [index]: of the dimensions behind the first. -1 where they are 2^63 or more. */
int64_t batch_row_elements(const struct desc *desc, int index);

/* A batch without tensors, for such as tensor [index] of [desc]; NULL where memory is out. [team] is
 * borrowed.
 */
struct batch *batch_create(struct process_set *team, int backend, const struct desc *desc, int index);
void batch_free(struct batch *batch); /* NULL is fine; its tensors are not its own */

void batch_add(struct batch *batch, struct request_tensor *tensor);

/* LAY_OUT, first half: say in batch->buffer_bytes how much of the buffer it needs. Results get their memory:
 * where there is none the operation fails here, and what comes for it goes to the buffer. */
int batch_plan(struct batch *batch, struct hvd_error *err);

/* LAY_OUT, second half: [buffer] is large enough. */
void batch_lay_out(struct batch *batch, void *buffer);

/* One slice of it. */
void batch_pack(struct batch *batch);
void batch_unpack(struct batch *batch);

/* RUN is over, of what was laid out. */
void batch_transfer_done(struct batch *batch);

/* Begin with [first_part], which is at [buffer_at], up to [last_part]. */
void batch_rewind(struct batch *batch, int first_part, int last_part, int64_t buffer_at);

#endif
