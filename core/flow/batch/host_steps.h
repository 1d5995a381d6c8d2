/* host_steps.h: the steps of a batch that a backend carries through memory of the host. It is packed into the
 * fusion buffer, transferred and unpacked; tensors on the GPU are copied to host memory before that, and
 * their results back after it (staging.h).
 *
 * Owns the fusion buffer. Calls the backends, and failure for a lost rank. */
#ifndef FLOW_BATCH_HOST_STEPS_H
#define FLOW_BATCH_HOST_STEPS_H

#include "flow/batch/batch_queue.h"
#include "flow/failure.h"

/* A batch of at most this many bytes goes on until it has to wait; larger ones take one step in a round. */
#define HOST_QUICK_BYTES 16384

struct host_steps {
    struct control *control;
    struct backends *backends;
    struct failure *failure;
    struct batch_queue *batch_queue;
    int side;     /* of the batch that was fetched last */
    void *buffer; /* the fusion buffer, which grows to the size of the largest batch */
    int64_t buffer_bytes;
};

/* Free the buffer. */
void host_steps_fini(struct host_steps *host);

/* The next step of [batch], which is at a stage that only batches of this kind have. [*movedp]: whether it
 * could be made. */
int host_step(struct host_steps *host, struct batch *batch, bool *movedp, struct hvd_error *err);

/* FETCH, also ahead of the batch's turn. */
int host_fetch(struct host_steps *host, struct batch *batch, struct hvd_error *err);

/* START and RUN, of any batch: the backend carries its transfer, or what its members tell each other first.
 * [*donep]: the transfer is complete. */
int host_start(struct host_steps *host, struct batch *batch, bool *movedp, struct hvd_error *err);
int host_test(struct host_steps *host, struct batch *batch, bool *donep, bool *movedp, struct hvd_error *err);

/* The row counts of a batch have come. Tensors that exceed the fusion size become a batch of their own, which
 * runs next. */
int host_apply_row_counts(struct host_steps *host, struct batch *batch, struct hvd_error *err);

/* The transfer is complete: unpack next, or combine. */
void host_transferred(struct host_steps *host, struct batch *batch);

/* The batch is given up: the backend does not touch its memory from here on. */
void host_abandon(const struct host_steps *host, const struct batch *batch);

/* May this rank open those backends of [mask] that are not open? It blocks until the others come to the same
 * batch, and so must wait while messages of ours are still in this process: the others may need them to get
 * there. */
bool host_may_open(const struct host_steps *host, uint32_t mask);

#endif
