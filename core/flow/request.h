/* request.h: one operation of this rank, with the memory of its tensors. */
#ifndef FLOW_REQUEST_H
#define FLOW_REQUEST_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "negotiate/name_table.h"
#include "base/status.h"
#include "flow/gpu.h"
#include "negotiate/desc.h"
#include "trace/trace.h"

struct message;

/* The memory of one tensor of an operation. */
struct request_tensor {
    struct request *request;
    int index; /* its number in the request's desc */
    const void *input;
    void *output;              /* NULL until it is allocated, for allgather and alltoall */
    struct hvd_result *result; /* allgather, alltoall; the caller's */
    int64_t count;             /* elements of input (broadcast: of output) */
    int64_t bytes;
    int64_t rows; /* allgather, alltoall: this rank's first dimension */
    /* used by the progress driver only */
    int64_t row_elements; /* elements of one row, if the operation treats the first dimension as rows */
    int64_t *member_rows; /* allgather, alltoall: rows of each member, once known; freed with this */
    int64_t result_rows;  /* the sum of member_rows */
    int64_t moved;        /* elements packed or unpacked so far */
    struct request_tensor *next; /* in its batch */
    const void *gpu_input;       /* while [staged]: the tensor on the GPU, input and output */
    void *gpu_output;
    bool staged; /* input and output are copies in host memory */
    bool owned;  /* hvd allocated output, and the caller does not have it yet */
    bool is_cut; /* request_cut made it */
    /* used by the tensor queue only */
    bool in_table;         /* link is in the table of names */
    struct name_link link; /* hash of set and name */
};

/* It lives from submission until it is done and its handle is released. If [reusable], the tensor queue keeps
 * it after that for the next submission of the same operation. The caller keeps the memory that [ranks],
 * [setp] and [last_rankp] point to until the operation is done. */
struct request {
    const struct desc *desc;       /* a reference is held */
    uint32_t backends;             /* those that can carry it on this rank */
    bool reusable;                 /* the program may well submit the same operation again */
    int64_t *splits;               /* alltoall, or given: rows for each member; freed with this */
    const int *ranks;              /* SET_ADD: the new members, ascending */
    hvd_set *setp;                 /* SET_ADD: where to write the new set's number */
    int *last_rankp;               /* JOIN: where to write the rank that joined last, or NULL */
    struct gpu_event *ready;       /* tensors on the GPU: the stream of the caller has come so far; owned */
    uint64_t offsets;              /* the same: as submission.offsets */
    struct message *messages;      /* SEND, RECV, EXCHANGE: one for each tensor; freed with this */
    struct persistent *persistent; /* what it makes, which outlives it; NULL: it runs once */
    bool is_counted;               /* in finish.unlaunched or finish.joins */
    hvd_done_f done;
    void *arg;
    /* used by the progress driver only, down to reason */
    uint32_t id;           /* in the response cache, when the ranks last agreed on it */
    bool decided;          /* all ranks agreed to run it */
    bool same_offsets;     /* and all have its tensors at [offsets] */
    bool placeholder;      /* made here for a rank that has joined, to contribute zeros; the user has none */
    int tensors_left;      /* not done yet, as they were cut */
    int tensors_to_launch; /* not in the GPU's queue yet */
    int first_error;       /* HVD_OK, or the first error of a tensor */
    char *reason;          /* of first_error; NULL if memory was out */
    struct trace_op trace; /* filled by the thread that submits */
    struct request *next;  /* in the queue's list, or in the caller's */
    /* used by the tensor queue only */
    hvd_handle handle;     /* 0: the caller wanted none */
    _Atomic bool live;     /* submitted and not withdrawn: its names are taken */
    _Atomic int status;    /* HVD_IN_PROGRESS until it is done */
    _Atomic bool launched; /* it is in the GPU's queue, which has done it when [end] comes */
    struct gpu_event *end; /* owned */
    bool idle;             /* done, and kept for reuse */
    int tensors_in_table;  /* how many tensors have their name in the table */
    const char *last_name; /* address of the caller's first name at the last reuse; only to prefetch */
    char *sentence;        /* of the error, or NULL */
    TAILQ_ENTRY(request) idle_link;
    int tensor_count; /* one for each tensor of desc */
    struct request_tensor tensors[];
};

/* A zeroed request with one request_tensor for each tensor of [desc]; it holds a reference to [desc]. NULL if
 * memory is out. */
struct request *request_create(const struct desc *desc);
/* For a request that no tensor queue has had: the names of any other may be in the queue's table, and
 * tensor_queue_discard frees it. NULL is fine. */
void request_free(struct request *request);

/* The name of [tensor]; hvd's internal name if the operation is an internal one. */
const char *request_name(const struct request_tensor *tensor);

/* The hash of a set and a name of [length] bytes, as in link.hash of a tensor. */
uint64_t request_hash(hvd_set set, const char *name, size_t length);

/* Two tensors in place of [tensor], linked by next, of which the first has [count] elements. That of the
 * request itself stays as it is. NULL if memory is out. */
struct request_tensor *request_cut(struct request_tensor *tensor, int64_t count, int64_t element_bytes);

/* One tensor is over; one that was cut is freed. Returns its request, which has one less left. */
struct request *request_tensor_over(struct request_tensor *tensor);

/* A tensor of [request] failed. The first such error becomes the error of the request. Copies [reason]. */
void request_fail(struct request *request, int status, const char *reason);

/* Prepare a request that succeeded for its next submission: everything except its description is again as
 * request_create made it. */
void request_reset(struct request *request);

#endif
