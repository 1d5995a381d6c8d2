/* message_staging.c: messages of tensors on the GPU, which travel through pinned memory of the host. */
#include "flow/message_staging.h"

#include "flow/tensor_queue.h"

/* No descriptor says that the program's stream has come so far. */
#define LOOK_US INT64_C(1000)

void message_staging_init(struct message_staging *staging, struct gpu *gpu)
{
    staging->gpu = gpu;
    TAILQ_INIT(&staging->sends);
    TAILQ_INIT(&staging->wanted);
    TAILQ_INIT(&staging->received);
}

/* ---- In ------------------------------------------------------------------------------------------ */

/* Must [later] arrive behind [earlier]? */
static bool is_behind(const struct message *later, const struct message *earlier)
{
    return later->op.to == earlier->op.to && later->op.envelope.set == earlier->op.envelope.set &&
           later->op.envelope.tag == earlier->op.envelope.tag;
}

/* Is there an earlier send here that [message] must not overtake? */
static bool must_wait(const struct message_staging *staging, const struct message *message)
{
    const struct message *earlier = NULL;
    TAILQ_FOREACH(earlier, &staging->sends, link)
    {
        if (earlier == message)
            return false;
        if (is_behind(message, earlier))
            return true;
    }
    return false;
}

int message_staging_supply(struct message_staging *staging, struct message *message, struct hvd_error *err)
{
    int rc = gpu_block_take(staging->gpu, message->op.bytes, &message->block, err);
    if (rc == HVD_OK)
        message->op.memory = message->block->memory;
    return rc;
}

void message_staging_want(struct message_staging *staging, struct message *message)
{
    TAILQ_INSERT_TAIL(&staging->wanted, message, link);
}

int message_staging_take(struct message_staging *staging, struct message *message, bool *heldp,
                         struct hvd_error *err)
{
    *heldp = message->op.direction == P2P_SEND && (message->on_gpu != NULL || must_wait(staging, message));
    if (message->on_gpu != NULL && !message->op.direct) {
        int rc = message_staging_supply(staging, message, err);
        if (rc != HVD_OK)
            return rc;
    }
    if (*heldp)
        TAILQ_INSERT_TAIL(&staging->sends, message, link);
    return HVD_OK;
}

bool message_staging_stores(struct message_staging *staging, struct message *message)
{
    if (message->block == NULL || message->op.direction != P2P_RECEIVE)
        return false;
    TAILQ_INSERT_TAIL(&staging->received, message, link);
    return true;
}

/* ---- Out ----------------------------------------------------------------------------------------- */

/* Copy once the program's stream has come so far. HVD_OK: it is copied. */
static int copy(struct message_staging *staging, struct message *message, struct hvd_error *err)
{
    bool sends = message->op.direction == P2P_SEND;
    void *to = sends ? message->op.memory : message->on_gpu;
    const void *from = sends ? message->on_gpu : message->op.memory;
    int rc = HVD_OK;
    if (message->copied == NULL) {
        rc = gpu_event_status(message->tensor->request->ready, err);
        if (rc == HVD_OK)
            rc = gpu_copy_message(staging->gpu, to, from, message->op.bytes, &message->copied, err);
        if (rc != HVD_OK)
            return rc;
    }
    rc = gpu_event_status(message->copied, err);
    if (rc == HVD_IN_PROGRESS && gpu_notify(staging->gpu, message->copied, err) != HVD_OK)
        return HVD_ERR_SYSTEM;
    return rc;
}

/* Are its bytes where they have to be? HVD_IN_PROGRESS: not yet. Those that NCCL may carry stay on the GPU.
 */
static int prepare(struct message_staging *staging, struct message *message, struct hvd_error *err)
{
    if (message->on_gpu == NULL)
        return HVD_OK;
    return message->block == NULL ? gpu_event_status(message->tensor->request->ready, err)
                                  : copy(staging, message, err);
}

/* May it leave [list]? HVD_IN_PROGRESS: not yet. */
static int test(struct message_staging *staging, const struct message_list *list, struct message *message,
                struct hvd_error *err)
{
    int rc = HVD_OK;
    if (list == &staging->wanted && message->block == NULL)
        rc = message_staging_supply(staging, message, err);
    if (rc == HVD_OK)
        rc = prepare(staging, message, err);
    bool waits = rc == HVD_OK && list == &staging->sends && must_wait(staging, message);
    return waits ? HVD_IN_PROGRESS : rc;
}

/* Take the first message that may leave [list]; NULL: none may. */
static int take_next(struct message_staging *staging, struct message_list *list, struct message **messagep,
                     struct hvd_error *err)
{
    struct message *message = NULL;
    int rc = HVD_IN_PROGRESS;
    TAILQ_FOREACH(message, list, link)
    {
        rc = test(staging, list, message, err);
        if (rc != HVD_IN_PROGRESS)
            break;
    }
    *messagep = rc == HVD_OK ? message : NULL;
    if (rc == HVD_OK)
        TAILQ_REMOVE(list, message, link);
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int message_staging_next_send(struct message_staging *staging, struct message **messagep,
                              struct hvd_error *err)
{
    return take_next(staging, &staging->sends, messagep, err);
}

int message_staging_next_wanted(struct message_staging *staging, struct message **messagep,
                                struct hvd_error *err)
{
    return take_next(staging, &staging->wanted, messagep, err);
}

int message_staging_next_stored(struct message_staging *staging, struct message **messagep,
                                struct hvd_error *err)
{
    return take_next(staging, &staging->received, messagep, err);
}

static struct message *withdraw_from(struct message_list *list, hvd_set set)
{
    struct message *message = NULL;
    TAILQ_FOREACH(message, list, link)
    {
        if (set != TENSOR_QUEUE_ALL_SETS && message->op.envelope.set != set)
            continue;
        TAILQ_REMOVE(list, message, link);
        return message;
    }
    return NULL;
}

struct message *message_staging_withdraw(struct message_staging *staging, hvd_set set)
{
    struct message *message = withdraw_from(&staging->sends, set);
    return message != NULL ? message : withdraw_from(&staging->received, set);
}

struct message *message_staging_withdraw_wanted(struct message_staging *staging)
{
    return withdraw_from(&staging->wanted, TENSOR_QUEUE_ALL_SETS);
}

void message_staging_release(struct message *message)
{
    if (message->block != NULL)
        gpu_block_put(message->block, message->copied);
    gpu_event_release(message->copied);
    message->block = NULL;
    message->copied = NULL;
}

int64_t message_staging_deadline(const struct message_staging *staging)
{
    return message_staging_is_idle(staging) ? INT64_MAX : clock_us() + LOOK_US;
}
