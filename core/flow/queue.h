/* queue.h: where user threads hand in requests, and where they ask for them again. The only part of flow that
 * several threads touch: every call locks, unless it says otherwise. */
#ifndef FLOW_QUEUE_H
#define FLOW_QUEUE_H

#include "base/status.h"
#include "flow/desc.h"
#include "trace/trace.h"

/* The memory of one tensor of an operation. */
struct piece {
    struct request *request;
    int index; /* of the tensor in the request's desc */
    const void *input;
    void *output;              /* NULL until it is allocated, for allgather and alltoall */
    struct hvd_result *result; /* allgather, alltoall; borrowed */
    int64_t count;             /* elements of input (broadcast: of output) */
    int64_t bytes;
    int64_t rows; /* allgather, alltoall: this rank's first dimension */
    /* whoever drives */
    bool owned;           /* output was allocated here and was not handed over yet */
    int64_t row_elements; /* elements of one row; of all where the first dimension means nothing special */
    int64_t *member_rows; /* allgather, alltoall: rows of each member, once it is known; owned */
    int64_t result_rows;  /* of all of them */
    int64_t moved;        /* elements packed or unpacked so far */
    struct piece *next;   /* in its batch */
    /* the queue's own */
    uint64_t hash; /* of set and name */
    struct piece *next_of_bucket;
};

/* One operation of this rank, from submission until it is done and its handle was given back. */
struct request {
    const struct desc *desc; /* held */
    uint32_t planes;         /* those that this rank has for it */
    int64_t *splits;         /* alltoall: rows for each member; owned */
    const int *ranks;        /* SET_ADD: the new members, ascending; borrowed */
    hvd_set *setp;           /* SET_ADD: where its number goes; borrowed */
    int *last_rankp;         /* JOIN: or NULL; borrowed */
    hvd_done_f done;
    void *arg;
    bool decided;          /* all ranks agreed to run it; belongs to whoever drives, as the next four */
    bool stand_in;         /* of a rank that has joined: it gives zeros, and nobody knows of it */
    int pieces_left;       /* not done yet */
    int worst;             /* HVD_OK, or the first error of a piece */
    char *reason;          /* of that; NULL where memory was out */
    struct trace_op trace; /* filled by whoever hands it in */
    struct request *next;  /* in the queue's list */
    int64_t submitted_us;  /* clock_us at submission */
    /* the queue's own */
    hvd_handle handle; /* 0: nobody will ask */
    int status;        /* HVD_IN_PROGRESS until it is done */
    char *sentence;    /* of an error, or NULL */
    int piece_count;   /* one for each tensor of desc */
    struct piece pieces[];
};

/* Zeroed, with a piece for each tensor of [desc], which it holds; NULL where memory is out. */
struct request *request_create(const struct desc *desc);
void request_free(struct request *request); /* NULL is fine */

/* A piece of it failed: the first error becomes that of the whole. [reason] is copied. */
void request_fail(struct request *request, int status, const char *reason);

struct queue;

int queue_create(struct queue **queuep, struct hvd_error *err);
void queue_destroy(struct queue *queue); /* NULL is fine; requests in it are freed */

/* Hand in [request], which is the queue's from then on; on failure it stays the caller's. *firstp: the queue
 * was empty before, so whoever drives must be told. HVD_ERR_DUPLICATE where one of its tensors' names is in
 * flight in its set, or stands in it twice: then none of them is handed in; the status of queue_refuse after
 * that. */
int queue_submit(struct queue *queue, struct request *request, hvd_handle *handlep, bool *firstp,
                 struct hvd_error *err);

/* From now on submissions get [status] and [sentence]; the first refusal stays. */
void queue_refuse(struct queue *queue, int status, const char *sentence);

/* Take all that was handed in, in order; NULL where there is nothing (found out without locking). */
struct request *queue_take(struct queue *queue);

/* The operation is over: its name may be used again, by its own callback too. */
void queue_withdraw(struct queue *queue, struct request *request);

/* Withdraw all that is in flight in [set] and not [decided], handed in or taken; linked by next. */
#define QUEUE_ALL_SETS (-1)
struct request *queue_withdraw_undecided(struct queue *queue, hvd_set set);

/* Say that a withdrawn request is done: its callback has run. It is freed where nobody holds a handle.
 * [sentence]: NULL, or why. */
void queue_finish(struct queue *queue, struct request *request, int status, const char *sentence);

/* How far the operation is; HVD_ERR_INVALID for a handle that is none. [err]: the sentence of a final error.
 */
int queue_test(struct queue *queue, hvd_handle handle, struct hvd_error *err);

/* Give the handle of a finished request back. */
void queue_release(struct queue *queue, hvd_handle handle);

#endif
