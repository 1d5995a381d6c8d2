/* batch.h: tensors that are transferred together. */
#ifndef FLOW_BATCH_BATCH_H
#define FLOW_BATCH_BATCH_H

#include "flow/tensor_queue.h"
#include "backend/backends.h"

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

/* How a batch travels. Each route has its steps in a file, and a part of the batch that no other route has.
 */
enum batch_route {
    ROUTE_HOST,      /* a backend carries it through host memory (host_steps.h) */
    ROUTE_ADASUM,    /* the same, in pairwise exchanges (adasum.h) */
    ROUTE_DIRECT,    /* NCCL carries it from GPU to GPU (direct_steps.h) */
    ROUTE_START,     /* a start of a persistent operation, without tensors (persistent.h) */
    ROUTE_SET_CHANGE /* it adds or removes a process set, without tensors (run.h) */
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

/* Where its tensors lie for the transfer. */
struct batch_layout {
    int64_t bytes;              /* of all tensors, as transferred */
    bool packed;                /* the input is packed into the buffer */
    bool unpacked;              /* the output is unpacked from the buffer */
    bool all_buffered;          /* all members have their input and output in the buffer */
    bool in_place;              /* the output takes the place of the buffer */
    struct backend_span *spans; /* tensors that the backend takes in place of the buffer; owned */
    int64_t buffer_bytes;       /* how much of the buffer the batch needs */
    void *buffer;
    struct batch_cursor cursor;
};

/* Elements and rows of each member, for collectives that have these. */
struct batch_counts {
    int64_t *sent;     /* elements to, or of, each member; owned */
    int64_t *received; /* alltoall: elements from each member; owned */
    bool exchanging;   /* the running transfer is that of the row counts */
    int64_t *sizes;    /* while [exchanging]: row counts of this rank, then the received ones; owned */
};

/* ROUTE_HOST and ROUTE_ADASUM, if tensors are on the GPU (staging.h). */
struct batch_host {
    int side;    /* of GPU_BLOCK_SIDES, from FETCH on */
    bool handed; /* MPI is given the tensor on the GPU */
};

/* ROUTE_ADASUM. */
struct batch_adasum {
    int level;      /* levels that are done */
    bool has_dots;  /* the dot products of this level are complete */
    double dots[3]; /* a.a, b.b, a.b */
};

/* ROUTE_DIRECT. */
struct batch_direct {
    struct batch *companions;                  /* batches of the same set that are launched with this one, in
                                                  one group of NCCL's; linked by next */
    int64_t group_bytes;                       /* of its tensors and those of its companions, as
                                                  batch_tensor_bytes counts */
    bool alone;                                /* persistent: of the only member of its set, without NCCL: it
                                                  is copied */
    bool same_offsets;                         /* of all its tensors, on all members */
    bool has_elements;                         /* there is something to transfer */
    const struct gpu_memory *memory;           /* where NCCL takes the tensors in place; or NULL */
    char *detour_input, *detour_output;        /* what NCCL takes in place of the tensor; or NULL */
    struct nccl_exchange *exchange;            /* while it runs (communicator.h); owned */
    struct pack_plan *pack_plan, *unpack_plan; /* until the GPU has done the batch; owned */
    struct CUstream_st *stream;                /* in which it was launched last */
    void *own_memory; /* persistent: its buffers, and those of its companions; owned */
};

/* ROUTE_START. */
struct batch_start {
    const struct desc *desc; /* of the operation */
    bool alone;              /* as that of its batches */
    struct gpu_event *ready; /* the stream has come to it; owned */
};

/* ROUTE_SET_CHANGE. */
struct batch_set_change {
    struct request *request; /* NULL: others make a set for themselves alone */
    const struct desc *desc; /* held */
    hvd_set number;          /* of the set */
    uint32_t backends;       /* SET_ADD: the mask of those that all who asked for it have */
    bool splitting;          /* SET_ADD: NCCL makes the set's communicator */
};

struct batch {
    struct batch *next;
    enum batch_stage stage;
    struct process_set *set;       /* the registry's; SET_REMOVE: owned, NULL if this rank is no member */
    uint64_t number;               /* direct: from when it is launched, as batch_number */
    struct backend_batch transfer; /* as the backend gets it */
    int backend;                   /* for what goes through memory of the host; -1: nothing is transferred */
    struct request_tensor *tensors, **tail;
    int tensor_count;
    int64_t fusion_bytes; /* the fusion size when it was decided */
    enum hvd_dtype dtype; /* of the tensors; another may be transferred */
    bool at_root;         /* a broadcast whose root is this rank */
    bool all_local;       /* every tensor is in this rank's memory and has elements */
    struct batch_counts counts;
    struct batch_layout layout;
    struct gpu *gpu;               /* tensors on the GPU: this rank's; otherwise NULL */
    struct gpu_event *event;       /* the GPU has done what this batch has put into its queue; owned */
    struct persistent *persistent; /* whose batch it is, or which it starts; NULL: none */
    enum batch_route route;
    union {
        struct {
            struct batch_host host;
            struct batch_adasum adasum;
        };
        struct batch_direct direct;
        struct batch_start start;
        struct batch_set_change set_change;
    } part; /* read through the next five functions only */
};

struct nccl_exchange;

/* The part that a batch has by its route; NULL if it has another route. */
struct batch_host *batch_host(const struct batch *batch);
struct batch_adasum *batch_adasum(const struct batch *batch);
struct batch_direct *batch_direct(const struct batch *batch);
struct batch_start *batch_start(const struct batch *batch);
struct batch_set_change *batch_set_change(const struct batch *batch);

/* What a backend must support for tensor [index] of [desc] among [ranks] members; for allgather and alltoall
 * it must support the same with HVD_INT64 too. */
struct backend_need batch_need(const struct desc *desc, int index, int ranks);

/* Bytes of [tensor] as transferred, equal on all ranks: what fusion counts. For allgather and alltoall, whose
 * row counts are not exchanged yet, the bytes of one row. */
int64_t batch_tensor_bytes(const struct request_tensor *tensor);

/* A batch without tensors, for tensors that fuse with tensor [index] of [desc]; NULL without memory. [set]
 * must outlive it. */
struct batch *batch_create(struct process_set *set, int backend, const struct desc *desc, int index);
void batch_free(struct batch *batch); /* NULL is fine. Its tensors stay */

/* Batches without tensors; NULL without memory. The first stands for a start of [persistent], an operation of
 * [desc] whose first batch is [first]. The second has the turn of [request], which adds or removes set
 * [number], as [stage] says. */
struct batch *batch_create_start(const struct batch *first, struct persistent *persistent,
                                 const struct desc *desc);
struct batch *batch_create_set_change(enum batch_stage stage, hvd_set number, const struct desc *desc,
                                      struct request *request);

/* NCCL carries the batch, whose tensors are on [gpu]; if [alone], the only member of its set copies them
 * instead. Call it before tensors are added. */
void batch_go_direct(struct batch *batch, struct gpu *gpu, bool alone);

/* NCCL cannot carry the batch: its tensors go through host memory. Its companions must have been taken. */
void batch_go_through_host(struct batch *batch);

/* Does the batch need NCCL? */
bool batch_uses_nccl(const struct batch *batch);

/* The batches that are launched with it. Those that are taken are no longer its companions. */
struct batch *batch_companions(const struct batch *batch);
struct batch *batch_take_companions(struct batch *batch);

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

/* Its number in its set, from 1, while it is transferred or about to be; otherwise 0. Equal on all members.
 */
uint64_t batch_number(const struct batch *batch);

/* One of its operations. */
const struct desc *batch_desc(const struct batch *batch);

/* Returns true while the program's streams have earlier work for the GPU that the batch must wait for. That
 * may take as long as the program likes. */
bool batch_waits_for_program(const struct batch *batch);

/* Is NCCL still putting what it was given for the batch into the GPU's queue? */
bool batch_is_in_nccl(const struct batch *batch);

/* Does each member have a part of its own? Parts may differ in size. */
bool batch_has_parts(const struct batch *batch);

/* Do the members tell each other how many rows they have, before results get their memory? */
bool batch_is_sized_later(const struct batch *batch);

/* The row counts are known, where the batch needs them: lay it out next. */
bool batch_has_row_counts(const struct batch *batch);

/* Does NCCL take tensors of one of [batches], linked by next, in [memory]? */
bool batches_use(const struct batch *batches, const struct gpu_memory *memory);

#endif
