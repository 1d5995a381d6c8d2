/* message_direct.c: messages from GPU to GPU, which NCCL carries without memory of the host. */
#include "flow/message_direct.h"

#include "base/clock.h"
#include "cuda/driver_calls.h"
#include "flow/message_pair.h"

/* No descriptor says that NCCL, or the program's stream, has come so far. */
#define TRANSFER_LOOK_US INT64_C(100)
#define LOOK_US          INT64_C(1000)

void message_direct_init(struct message_direct *direct, struct gpu *gpu, const struct backend_env *env,
                         struct p2p *p2p)
{
    direct->gpu = gpu;
    direct->env = env;
    direct->p2p = p2p;
    LIST_INIT(&direct->pairs);
}

bool message_direct_may_carry(const struct message_direct *direct, const struct message *message)
{
    bool sends = message->op.direction == P2P_SEND;
    int rank = sends ? message->op.to : message->op.envelope.source;
    if (message->on_gpu == NULL || message->op.bytes <= P2P_EAGER_BYTES || rank == direct->env->job->rank ||
        !gpu_nccl_use(direct->gpu).possible)
        return false;
    const struct message_pair *pair = message_pair_find(direct, rank, sends);
    return pair == NULL || pair->stage != PAIR_REFUSED;
}

/* ---- What p2p tells ------------------------------------------------------------------------------ */

int message_direct_take(struct message_direct *direct, struct message *message, int rank, bool begins,
                        struct hvd_error *err)
{
    if (begins) {
        message->queue->begins = true;
        return HVD_OK;
    }
    bool sends = message->op.direction == P2P_SEND;
    int rc = message_pair_need(direct, rank, sends, &message->pair, err);
    if (rc == HVD_OK && sends && message->pair->stage == PAIR_REFUSED)
        rc = error_set(err, HVD_ERR_SYSTEM, "word that a message goes from GPU to GPU, where none can");
    if (rc == HVD_OK)
        TAILQ_INSERT_TAIL(&message->pair->waiting, message, link);
    else
        p2p_end(direct->p2p, &message->op, rc, err->text);
    return rc;
}

int message_direct_take_card(struct message_direct *direct, int rank, bool sends, const char *card,
                             struct hvd_error *err)
{
    struct message_pair *pair = NULL;
    if (!gpu_nccl_use(direct->gpu).possible)
        return error_set(err, HVD_ERR_SYSTEM, "a card where none must come");
    int rc = message_pair_need(direct, rank, sends, &pair, err);
    return rc == HVD_OK ? message_pair_hear(pair, card, err) : rc;
}

/* ---- Beginning ----------------------------------------------------------------------------------- */

/* A free queue with a stream; NULL: all are in use. */
static int find_queue(struct message_direct *direct, bool sends, struct transfer_queue **queuep,
                      struct hvd_error *err)
{
    struct transfer_queue *queue = sends ? direct->sends : direct->receives;
    const struct transfer_queue *end = queue + TRANSFER_QUEUES;
    const struct cuda_driver *driver = gpu_device(direct->gpu)->driver;
    int mode = 0;
    while (queue < end && queue->message != NULL)
        queue++;
    *queuep = queue < end ? queue : NULL;
    if (*queuep == NULL || queue->stream != NULL)
        return HVD_OK;
    int rc = gpu_enter(direct->gpu, &mode, err);
    if (rc != HVD_OK)
        return rc;
    CUresult result = driver->cuStreamCreateWithPriority(&queue->stream, CU_STREAM_NON_BLOCKING, 0);
    gpu_leave(direct->gpu, mode);
    return result == CUDA_SUCCESS ? HVD_OK : cuda_error(driver, result, err, "no stream for messages");
}

/* The first one for which the program's stream has come so far, as it has for all sends; NULL: none. */
static int find_ready(const struct message_pair *pair, struct message **messagep, struct hvd_error *err)
{
    struct message *message = NULL;
    int rc = HVD_IN_PROGRESS;
    TAILQ_FOREACH(message, &pair->waiting, link)
    {
        rc = gpu_event_status(message->tensor->request->ready, err);
        message->op.held = rc == HVD_IN_PROGRESS;
        if (rc != HVD_IN_PROGRESS)
            break;
    }
    *messagep = rc == HVD_OK ? message : NULL;
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

static int begin_next(struct message_direct *direct, struct message_pair *pair, bool *movedp,
                      struct hvd_error *err)
{
    struct transfer_queue *queue = NULL;
    struct message *message = NULL;
    int rc = find_ready(pair, &message, err);
    if (rc == HVD_OK && message != NULL)
        rc = find_queue(direct, pair->sends, &queue, err);
    if (rc != HVD_OK || queue == NULL)
        return rc;
    TAILQ_REMOVE(&pair->waiting, message, link);
    *queue = (struct transfer_queue){.stream = queue->stream, .message = message, .begins = pair->sends};
    message->queue = queue;
    pair->moving = message;
    *movedp = true;
    return pair->sends ? HVD_OK : p2p_take(direct->p2p, &message->op, true, err);
}

/* Through host memory. */
static int take_refused(struct message_direct *direct, struct message_pair *pair, bool *movedp,
                        struct hvd_error *err)
{
    int rc = HVD_OK;
    while (rc == HVD_OK && !TAILQ_EMPTY(&pair->waiting)) {
        struct message *message = TAILQ_FIRST(&pair->waiting);
        TAILQ_REMOVE(&pair->waiting, message, link);
        *movedp = true;
        rc = p2p_take(direct->p2p, &message->op, false, err);
    }
    return rc;
}

static int advance_pair(struct message_direct *direct, struct message_pair *pair, bool *movedp,
                        struct hvd_error *err)
{
    int rc = message_pair_connect(direct, pair, movedp, err);
    if (rc == HVD_OK && pair->stage == PAIR_CONNECTED && pair->moving == NULL)
        rc = begin_next(direct, pair, movedp, err);
    if (rc == HVD_OK && pair->stage == PAIR_REFUSED)
        rc = take_refused(direct, pair, movedp, err);
    return rc;
}

/* ---- Moving -------------------------------------------------------------------------------------- */

/* The receiver hears of a send that NCCL has. */
static int launch(struct transfer_queue *queue, struct hvd_error *err)
{
    struct message *message = queue->message;
    bool sends = message->pair->sends;
    const struct nccl_message moved = {message->on_gpu, message->op.bytes, sends};
    int rc = nccl_team_move(message->pair->team, &moved, queue->stream, err);
    queue->launched = true;
    return rc == HVD_OK && sends ? p2p_start(&message->op, true, err) : rc;
}

static int advance_queue(struct message_direct *direct, struct transfer_queue *queue, bool *movedp,
                         struct hvd_error *err)
{
    struct message *message = queue->message;
    int rc = HVD_OK;
    if (message == NULL || !queue->begins)
        return HVD_OK;
    if (!queue->launched) {
        *movedp = true;
        rc = launch(queue, err);
    }
    if (rc == HVD_OK)
        rc = nccl_team_test(message->pair->team, err);
    if (rc == HVD_OK && message->copied == NULL)
        rc = gpu_mark(direct->gpu, queue->stream, &message->copied, err);
    if (rc == HVD_OK)
        rc = gpu_event_status(message->copied, err);
    if (rc == HVD_OK) {
        *movedp = true;
        p2p_end(direct->p2p, &message->op, HVD_OK, NULL);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int message_direct_advance(struct message_direct *direct, bool *movedp, struct hvd_error *err)
{
    struct message_pair *pair = NULL;
    int rc = HVD_OK;
    if (LIST_EMPTY(&direct->pairs)) /* so it is in most rounds of most jobs, and these must be short */
        return HVD_OK;
    LIST_FOREACH(pair, &direct->pairs, link)
    {
        rc = advance_pair(direct, pair, movedp, err);
        if (rc != HVD_OK)
            return rc;
    }
    for (int i = 0; i < TRANSFER_QUEUES && rc == HVD_OK; i++) {
        rc = advance_queue(direct, &direct->sends[i], movedp, err);
        if (rc == HVD_OK)
            rc = advance_queue(direct, &direct->receives[i], movedp, err);
    }
    return rc;
}

void message_direct_release(struct message *message)
{
    if (message->queue != NULL)
        *message->queue = (struct transfer_queue){.stream = message->queue->stream};
    if (message->pair != NULL && message->pair->moving == message)
        message->pair->moving = NULL;
    message->queue = NULL;
}

/* ---- Questions ----------------------------------------------------------------------------------- */

int64_t message_direct_deadline(const struct message_direct *direct)
{
    const struct message_pair *pair = NULL;
    int64_t pause_us = 0;
    LIST_FOREACH(pair, &direct->pairs, link)
    {
        bool connects = pair->stage < PAIR_CONNECTED;
        if (pair->moving != NULL)
            return clock_us() + TRANSFER_LOOK_US;
        if (connects || !TAILQ_EMPTY(&pair->waiting))
            pause_us = LOOK_US;
    }
    return pause_us == 0 ? INT64_MAX : clock_us() + pause_us;
}

bool message_direct_is_busy(const struct message_direct *direct)
{
    const struct message_pair *pair = NULL;
    LIST_FOREACH(pair, &direct->pairs, link)
    {
        if (pair->moving != NULL || !TAILQ_EMPTY(&pair->waiting))
            return true;
    }
    return false;
}

/* ---- The end ------------------------------------------------------------------------------------- */

/* Are all queues of the GPU empty? */
static bool is_idle(const void *arg)
{
    const struct message_direct *direct = arg;
    const struct cuda_driver *driver = gpu_device(direct->gpu)->driver;
    bool idle = true;
    for (int i = 0; i < TRANSFER_QUEUES; i++) {
        const CUstream streams[] = {direct->sends[i].stream, direct->receives[i].stream};
        for (int j = 0; j < 2; j++)
            idle &= streams[j] == NULL || driver->cuStreamQuery(streams[j]) != CUDA_ERROR_NOT_READY;
    }
    return idle;
}

static void end_queue(struct message_direct *direct, struct transfer_queue *queue, int status,
                      const char *reason)
{
    if (queue->message != NULL && queue->begins)
        p2p_end(direct->p2p, &queue->message->op, status, reason);
}

void message_direct_end(struct message_direct *direct, int status, const char *reason)
{
    struct message_pair *pair = NULL;
    if (LIST_EMPTY(&direct->pairs))
        return;
    LIST_FOREACH(pair, &direct->pairs, link)
    {
        nccl_team_abort(pair->team);
    }
    /* work that NCCL has aborted may take a moment to leave the GPU */
    gpu_settle_until(direct->gpu, is_idle, direct);
    LIST_FOREACH(pair, &direct->pairs, link)
    {
        while (!TAILQ_EMPTY(&pair->waiting)) {
            struct message *message = TAILQ_FIRST(&pair->waiting);
            TAILQ_REMOVE(&pair->waiting, message, link);
            p2p_end(direct->p2p, &message->op, status, reason);
        }
    }
    for (int i = 0; i < TRANSFER_QUEUES; i++) {
        end_queue(direct, &direct->sends[i], status, reason);
        end_queue(direct, &direct->receives[i], status, reason);
    }
}

static void close_queue(struct message_direct *direct, struct transfer_queue *queue)
{
    if (queue->stream != NULL)
        gpu_device(direct->gpu)->driver->cuStreamDestroy(queue->stream);
    queue->stream = NULL;
}

void message_direct_fini(struct message_direct *direct)
{
    int mode = 0;
    bool entered = !LIST_EMPTY(&direct->pairs) && gpu_enter(direct->gpu, &mode, NULL) == HVD_OK;
    for (int i = 0; entered && i < TRANSFER_QUEUES; i++) {
        close_queue(direct, &direct->sends[i]);
        close_queue(direct, &direct->receives[i]);
    }
    if (entered)
        gpu_leave(direct->gpu, mode);
    while (!LIST_EMPTY(&direct->pairs)) {
        struct message_pair *pair = LIST_FIRST(&direct->pairs);
        LIST_REMOVE(pair, link);
        message_pair_destroy(pair);
    }
}
