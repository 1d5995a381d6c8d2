/* queue.h: where user threads hand in requests, and where they ask for them again. The only part of flow that
 * several threads touch: every call locks, unless it says otherwise. */
#ifndef FLOW_QUEUE_H
#define FLOW_QUEUE_H

#include "base/status.h"
#include "flow/desc.h"

/* One operation of this rank, from submission until it is done and its handle was given back. */
struct request {
    struct desc desc;
    const void *input;
    void *output;
    hvd_done_f done;
    void *arg;
    int64_t count; /* elements */
    int64_t bytes;
    bool decided;         /* all ranks agreed to run it; belongs to whoever drives */
    struct request *next; /* in the queue's list, then in the batch's */
    /* the queue's own */
    uint64_t hash;
    struct request *next_of_bucket;
    hvd_handle handle; /* 0: nobody will ask */
    int status;        /* HVD_IN_PROGRESS until it is done */
    char *sentence;    /* of an error, or NULL */
};

struct queue;

int queue_create(struct queue **queuep, struct hvd_error *err);
void queue_destroy(struct queue *queue); /* NULL is fine; requests in it are freed */

/* Hand in a copy of [request]: desc, memory, done, arg, count and bytes are taken. *firstp: the queue was
 * empty before, so whoever drives must be told. HVD_ERR_DUPLICATE where one of that name is in flight; the
 * status of queue_refuse after that. */
int queue_submit(struct queue *queue, const struct request *request, hvd_handle *handlep, bool *firstp,
                 struct hvd_error *err);

/* From now on submissions get [status] and [sentence]; the first refusal stays. */
void queue_refuse(struct queue *queue, int status, const char *sentence);

/* Take all that was handed in, in order; NULL where there is nothing (found out without locking). */
struct request *queue_take(struct queue *queue);

/* The operation is over: its name may be used again, by its own callback too. */
void queue_withdraw(struct queue *queue, struct request *request);

/* Withdraw all that is in flight and not [decided], handed in or taken; linked by next. */
struct request *queue_withdraw_undecided(struct queue *queue);

/* Say that a withdrawn request is done: its callback has run. It is freed where nobody holds a handle.
 * [sentence]: NULL, or why. */
void queue_finish(struct queue *queue, struct request *request, int status, const char *sentence);

/* How far the operation is; HVD_ERR_INVALID for a handle that is none. [err]: the sentence of a final error.
 */
int queue_test(struct queue *queue, hvd_handle handle, struct hvd_error *err);

/* Give the handle of a finished request back. */
void queue_release(struct queue *queue, hvd_handle handle);

#endif
