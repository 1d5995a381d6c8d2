/* batch.h: tensors that are transferred together, and their way into the fusion buffer and out of it. */
#ifndef FLOW_BATCH_BATCH_H
#define FLOW_BATCH_BATCH_H

#include "flow/tensor_queue.h"
#include "backend/backends.h"

/* Packing and unpacking copy at most this much in one step, which takes about 100 us: messages of other ranks
 * are answered between steps. */
#define BATCH_PORTION_BYTES (INT64_C(512) << 10)

/* The next step of a batch. Batches go through the stages in this order, and each skips some. */
enum batch_stage {
    BATCH_CONNECT,    /* GPUs: the members of the set get a communicator of NCCL (communicator.h) */
    BATCH_CONNECTING, /* until they have it */
    BATCH_FETCH,      /* tensors on the GPU go to host memory (staging.h); on all ranks, also those that have
                         joined */
    BATCH_FETCHING,   /* until the GPU has done it */
    BATCH_ROW_COUNTS, /* allgather, alltoall: exchange how many rows each member has (row_counts.h) */
    BATCH_LAY_OUT,    /* find its memory */
    BATCH_PACK,
    BATCH_START,
    BATCH_LAUNCH,    /* pack and transfer go into the GPU's queue (direct.h) */
    BATCH_LAUNCHING, /* until they are in it */
    BATCH_KEEP,      /* a persistent operation gets the batch, when the GPU has what it needs for it
                        (persistent.h) */
    BATCH_RUN,
    BATCH_COMBINE, /* between two exchanges of Adasum (adasum.h) */
    BATCH_UNPACK,
    BATCH_STORE, /* results go to the GPU */
    BATCH_DONE,
    /* batches without tensors, which change the process sets in their turn */
    BATCH_SET_ADD,
    BATCH_SET_REMOVE
};

/* How far packing, unpacking or combining has come. The buffer holds one part after another, and each part
 * holds its share of every tensor. A part is what belongs to one member (reducescatter, allgather); other
 * collectives have a single part. */
struct batch_cursor {
    struct request_tensor *tensor; /* NULL: at the end */
    int part, last_part;
    int64_t inside;    /* elements of this tensor's part that are done */
    int64_t buffer_at; /* in elements */
};

struct batch {
    struct batch *next;
    struct batch *companions; /* direct: batches of the same set that are launched with this one, in one group
                                 of NCCL's; linked by next */
    int64_t group_bytes;      /* of its tensors and those of its companions, as batch_tensor_bytes counts */
    enum batch_stage stage;
    struct process_set
        *team;       /* SET_REMOVE: owned, NULL where this rank is no member. Otherwise the registry's */
    uint64_t number; /* direct: from when it is launched, as batch_number */
    struct backend_batch transfer; /* as the backend gets it */
    int backend;                   /* for what goes through memory of the host; -1: nothing is transferred */
    struct request_tensor *tensors, **tail;
    int tensor_count;
    int64_t bytes;          /* of all tensors, as transferred */
    int64_t fusion_bytes;   /* the fusion size when it was decided */
    enum hvd_dtype dtype;   /* of the tensors; another may be transferred */
    bool at_root;           /* a broadcast whose root is this rank */
    bool all_local;         /* every tensor is in this rank's memory and has elements */
    bool exchanging_counts; /* the running transfer is that of the row counts */
    bool packed;            /* the input is packed into the buffer */
    bool unpacked;          /* the output is unpacked from the buffer */
    bool all_buffered;      /* all members have their input and output in the buffer */
    int64_t *sizes;    /* while exchanging_counts: row counts of this rank, then the received ones; owned */
    int64_t *sent;     /* elements to, or of, each member, where the collective has these; owned */
    int64_t *received; /* alltoall: elements from each member; owned */
    struct backend_span *spans; /* tensors that the backend takes in place of the buffer; owned */
    int64_t buffer_bytes;       /* of the buffer: how much of it the batch needs */
    void *buffer;
    struct batch_cursor cursor;
    struct gpu *gpu;                           /* tensors on the GPU: this rank's; otherwise NULL */
    int side;                                  /* of GPU_BLOCK_SIDES, from FETCH on */
    bool direct;                               /* NCCL carries them, and not the host */
    bool handed;                               /* MPI is given them where they are on the GPU */
    bool in_place;                             /* direct: the output takes the place of the buffer */
    bool has_elements;                         /* direct: there is something to transfer */
    bool same_offsets;                         /* of all its tensors, on all members */
    const struct gpu_memory *memory;           /* direct: where NCCL takes the tensors as they lie; or NULL */
    char *detour_input, *detour_output;        /* direct: what NCCL takes in place of the tensor; or NULL */
    struct nccl_exchange *exchange;            /* while it runs (communicator.h); owned */
    struct pack_plan *pack_plan, *unpack_plan; /* until the GPU has done the batch; owned */
    struct gpu_event *event;       /* the GPU has done what this batch has put into its queue; owned */
    struct persistent *persistent; /* whose batch it is, or, with [starts], which it starts; NULL: none */
    bool starts;                   /* a start of a persistent operation, without tensors of its own */
    struct gpu_event *ready;       /* the same: the stream has come to it; owned */
    struct CUstream_st *stream;    /* direct: in which it was launched last */
    bool alone;       /* direct, persistent: of the only member of its set, without NCCL: it is copied */
    void *own_memory; /* persistent: its buffers, and those of its companions; owned */
    bool adasum;      /* an allreduce made of pairwise exchanges */
    int level;        /* Adasum: levels that are done */
    bool has_dots;    /* Adasum: the dot products of this level are complete */
    double dots[3];   /* a.a, b.b, a.b */
    /* SET_ADD, SET_REMOVE */
    struct request *request;
    hvd_set set;
    uint32_t backends; /* SET_ADD: the mask of those that all ranks have */
    bool splitting;    /* SET_ADD: NCCL makes the set's communicator */
};

struct nccl_exchange;

/* What a backend must support for tensor [index] of [desc] among [ranks] members; for allgather and alltoall
 * it must support the same with HVD_INT64 too. */
struct backend_need batch_need(const struct desc *desc, int index, int ranks);

/* Bytes of [tensor] as transferred, equal on all ranks: what fusion counts. For allgather and alltoall, whose
 * row counts are not exchanged yet, the bytes of one row. */
int64_t batch_tensor_bytes(const struct request_tensor *tensor);

/* A batch without tensors, for tensors that fuse with tensor [index] of [desc]; NULL without memory. [team]
 * must outlive it. */
struct batch *batch_create(struct process_set *team, int backend, const struct desc *desc, int index);
void batch_free(struct batch *batch); /* NULL is fine. Its tensors stay */

/* Do several tensors go through the fusion buffer? */
bool batch_is_fused(const struct batch *batch);

void batch_add(struct batch *batch, struct request_tensor *tensor);

/* Move the tensors from [*end] on, before which are [kept], to a batch of their own, *restp, whose stage the
 * caller sets. Returns HVD_OK or HVD_ERR_NO_MEMORY. */
int batch_split(struct batch *batch, struct request_tensor **end, int kept, struct batch **restp,
                struct hvd_error *err);

/* Launch [batch] together with [leader], if NCCL carries both, they are of the same set and their bytes do
 * not exceed the fusion size together. Returns whether they are; the same on all members, which NCCL needs.
 */
bool batch_join(struct batch *leader, struct batch *batch);

/* Its number in its set, from 1, while it is transferred or about to be; otherwise 0. The same on all
 * members.
 */
uint64_t batch_number(const struct batch *batch);

/* One of its operations. */
const struct desc *batch_desc(const struct batch *batch);

/* Tensors on the GPU: have the program's streams done what they must before it? */
bool batch_is_ready(const struct batch *batch);

/* LAY_OUT, first half: set batch->buffer_bytes, and allocate results. Where a result gets no memory its
 * operation fails on this rank; the rank takes part in the transfer all the same, into the buffer. */
int batch_plan(struct batch *batch, struct hvd_error *err);

/* LAY_OUT, second half: [buffer] has room for buffer_bytes. */
void batch_lay_out(struct batch *batch, void *buffer);

/* Copy one portion of at most BATCH_PORTION_BYTES. */
void batch_pack(struct batch *batch);
void batch_unpack(struct batch *batch);

/* The row counts are known, where the batch needs them: lay it out next. */
bool batch_has_row_counts(const struct batch *batch);

/* The transfer that was laid out is done. */
void batch_transfer_done(struct batch *batch);

/* Elements of [tensor] in [part]. */
int64_t batch_part_elements(const struct batch *batch, const struct request_tensor *tensor, int part);

/* Where this rank's part begins in the buffer, in elements. */
int64_t batch_own_offset(const struct batch *batch);

/* Move the cursor to [first_part], which begins at element [buffer_at] of the buffer; it ends after
 * [last_part]. */
void batch_rewind(struct batch *batch, int first_part, int last_part, int64_t buffer_at);

#endif
