/* request.h: one operation of this rank, with the memory of its tensors. */
#ifndef FLOW_REQUEST_H
#define FLOW_REQUEST_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/name_table.h"
#include "base/status.h"
#include "negotiate/desc.h"
#include "trace/trace.h"

/* The memory of one tensor of an operation. */
struct request_tensor {
    struct request *request;
    int index; /* of the tensor in the request's desc */
    const void *input;
    void *output;              /* NULL until it is allocated, for allgather and alltoall */
    struct hvd_result *result; /* allgather, alltoall; borrowed */
    int64_t count;             /* elements of input (broadcast: of output) */
    int64_t bytes;
    int64_t rows; /* allgather, alltoall: this rank's first dimension */
    /* whoever drives */
    int64_t row_elements;        /* elements of one row, where the first dimension means something special */
    int64_t *member_rows;        /* allgather, alltoall: rows of each member, once it is known; owned */
    int64_t result_rows;         /* of all of them */
    int64_t moved;               /* elements packed or unpacked so far */
    struct request_tensor *next; /* in its batch */
    bool owned;                  /* output was allocated here and was not handed over yet */
    /* the queue's own */
    bool in_table;         /* in the table of names */
    struct name_link link; /* its hash: of set and name */
};

/* From submission until it is done and its handle was given back; where it [reusable] it is kept after that,
 * for the next submission of the same operation. */
struct request {
    const struct desc *desc; /* held */
    uint32_t backends;       /* those that this rank has for it */
    bool reusable;           /* the same operation may well be handed in again: it is worth keeping */
    int64_t *splits;         /* alltoall: rows for each member; owned */
    const int *ranks;        /* SET_ADD: the new members, ascending; borrowed */
    hvd_set *setp;           /* SET_ADD: where its number goes; borrowed */
    int *last_rankp;         /* JOIN: or NULL; borrowed */
    hvd_done_f done;
    void *arg;
    uint32_t number;       /* what the ranks last knew it by; belongs to whoever drives, as the next five */
    bool decided;          /* all ranks agreed to run it */
    bool placeholder;      /* of a rank that has joined: it gives zeros, and nobody knows of it */
    int tensors_left;      /* not done yet */
    int first_error;       /* HVD_OK, or the first error of a tensor */
    char *reason;          /* of that; NULL where memory was out */
    struct trace_op trace; /* filled by whoever hands it in */
    struct request *next;  /* in the queue's list, or in the caller's */
    /* the queue's own */
    hvd_handle handle;     /* 0: nobody will ask */
    _Atomic bool live;     /* its names are taken: it was handed in, and not withdrawn */
    _Atomic int status;    /* HVD_IN_PROGRESS until it is done */
    bool idle;             /* over, and kept for the next time */
    int tensors_in_table;  /* how many of them */
    const char *last_name; /* where the caller's first name was when it was recalled: not for reading */
    char *sentence;        /* of an error, or NULL */
    TAILQ_ENTRY(request) idle_link;
    int tensor_count; /* one for each tensor of desc */
    struct request_tensor tensors[];
};

/* Zeroed, with one request_tensor for each tensor of [desc], to which it holds a reference; NULL if memory is
 * out. */
struct request *request_create(const struct desc *desc);
void request_free(struct request *request); /* NULL is fine */

/* What [tensor] is known by: hvd's own name where the operation is hvd's own. */
const char *request_name(const struct request_tensor *tensor);

/* Of a set and a name of so many bytes, as tensor->hash. */
uint64_t request_hash(hvd_set set, const char *name, size_t length);

/* A tensor of it failed; the first error is the error of the request. [reason] is copied. */
void request_fail(struct request *request, int status, const char *reason);

/* Prepare a request that succeeded for its next submission: all but its description is as request_create made
 * it. */
void request_reset(struct request *request);

#endif
