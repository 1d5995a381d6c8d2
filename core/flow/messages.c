/* messages.c: sends and receives: from a request to p2p/, which carries them, and to their end. */
#include "flow/messages.h"

#include "flow/stall_inspector.h"

static void end_message(struct messages *messages, struct message *message, int status, const char *reason)
{
    struct request_tensor *tensor = message->tensor;
    if (message->op.held)
        p2p_drop(messages->p2p, &message->op);
    message_direct_release(message);
    message_staging_release(message);
    finish_read_clock(messages->finish);
    finish_tensor(messages->finish, tensor, status, reason);
}

static void end_op(void *arg, struct p2p_op *op, int status, const char *reason)
{
    struct messages *messages = arg;
    struct message *message = op->user;
    if (status != HVD_OK || !message_staging_stores(&messages->staging, message))
        end_message(messages, message, status, reason);
}

/* Sets are numbered upwards: one that is unknown and not new was removed. */
static bool set_is_over(void *arg, hvd_set set)
{
    const struct messages *messages = arg;
    return set_registry_was_removed(messages->set_registry, set);
}

static int take_step(void *arg, struct p2p_op *op, int rank, enum p2p_step step, struct hvd_error *err)
{
    struct messages *messages = arg;
    if (step == P2P_STEP_WANTED) {
        message_staging_want(&messages->staging, op->user);
        return HVD_OK;
    }
    return message_direct_take(&messages->direct, op->user, rank, step == P2P_STEP_STARTED, err);
}

static int take_card(void *arg, int rank, bool sends, const char *card, struct hvd_error *err)
{
    struct messages *messages = arg;
    return message_direct_take_card(&messages->direct, rank, sends, card, err);
}

static int supply(void *arg, struct p2p_op *receive, struct hvd_error *err)
{
    struct messages *messages = arg;
    return message_staging_supply(&messages->staging, receive->user, err);
}

int messages_init(struct messages *messages, const struct backends *backends, struct gpu *gpu,
                  struct hvd_error *err)
{
    const struct backend_env *env = &backends->env;
    bool shares = (backends_available(backends) >> BACKEND_SHM & 1) != 0;
    const struct hvd_config *config = env->config;
    static const struct p2p_direct direct = {.step = take_step, .card = take_card, .supply = supply};
    const struct p2p_params params = {.peer_table = env->peer_table,
                                      .log = env->log,
                                      .endpoint = env->message_endpoint,
                                      .arena = shares ? env->arena : (struct arena){0},
                                      .epoll_fd = env->epoll_fd,
                                      .ended = end_op,
                                      .set_is_over = set_is_over,
                                      .limits = {.warn_us = config->stall_warn_us,
                                                 .abort_us = config->stall_abort_us,
                                                 .hang_us = config_hang_limit(config)},
                                      .direct = &direct,
                                      .arg = messages};
    message_staging_init(&messages->staging, gpu);
    int rc = p2p_create(&messages->p2p, &params, err);
    message_direct_init(&messages->direct, gpu, env, messages->p2p);
    return rc;
}

static int begin(struct messages *messages, struct message *message, struct hvd_error *err)
{
    bool held = false;
    message->op.direct = message_direct_may_carry(&messages->direct, message);
    if (message->op.direct)
        message->op.memory = NULL;
    int rc = message_staging_take(&messages->staging, message, &held, err);
    if (rc != HVD_OK)
        end_message(messages, message, rc, err->text);
    if (rc == HVD_OK && held)
        p2p_hold(messages->p2p, &message->op);
    return rc == HVD_OK && !held ? p2p_begin(messages->p2p, &message->op, err) : rc;
}

/* All of a group begin before any of them is waited for. The last one that ends frees the request. After an
 * error the job ends, and those that have begun with it. */
static int begin_all(struct messages *messages, struct request *request, struct hvd_error *err)
{
    int count = request->tensor_count, rc = HVD_OK;
    for (int i = 0; i < count; i++) {
        struct message *message = &request->messages[i];
        message->tensor = &request->tensors[i];
        message->op.user = message;
        if (rc == HVD_OK)
            rc = begin(messages, message, err);
        else
            end_message(messages, message, rc, err->text);
    }
    return rc;
}

static void refuse(struct messages *messages, struct request *request, int status, const char *reason)
{
    finish_read_clock(messages->finish);
    finish_request(messages->finish, request, status, reason);
}

int messages_submit(struct messages *messages, bool *movedp, struct hvd_error *err)
{
    int rc = HVD_OK;
    struct request *next = NULL;
    struct request *requests = tensor_queue_take_messages(messages->finish->queue);
    if (requests == NULL)
        return HVD_OK;
    *movedp = true;
    for (struct request *request = requests; request != NULL; request = next) {
        next = request->next;
        if (rc != HVD_OK)
            refuse(messages, request, rc, err->text);
        else if (set_registry_get(messages->set_registry, request->desc->set) != NULL)
            rc = begin_all(messages, request, err);
        else
            refuse(messages, request, HVD_ERR_SET, "the process set was removed meanwhile");
    }
    return rc;
}

static void check_stalls(struct messages *messages, bool *movedp)
{
    struct p2p_stalled stalled;
    if (!p2p_find_stalled(messages->p2p, &stalled))
        return;
    const struct request_tensor *tensor = ((const struct message *)stalled.op->user)->tensor;
    *movedp = true;
    stall_inspector_report_message(messages->failure, tensor->request->desc, tensor->index, &stalled);
}

/* Begin the sends whose bytes have come from the GPU, and end the receives whose bytes are there. */
static int advance_staged(struct messages *messages, bool *movedp, struct hvd_error *err)
{
    struct message *message = NULL;
    if (message_staging_is_idle(&messages->staging)) /* as in most rounds, which must be short */
        return HVD_OK;
    int rc = message_staging_next_send(&messages->staging, &message, err);
    while (rc == HVD_OK && message != NULL) {
        *movedp = true;
        rc = p2p_begin(messages->p2p, &message->op, err);
        if (rc == HVD_OK)
            rc = message_staging_next_send(&messages->staging, &message, err);
    }
    if (rc == HVD_OK)
        rc = message_staging_next_wanted(&messages->staging, &message, err);
    while (rc == HVD_OK && message != NULL) {
        *movedp = true;
        rc = p2p_start(&message->op, false, err);
        if (rc == HVD_OK)
            rc = message_staging_next_wanted(&messages->staging, &message, err);
    }
    if (rc == HVD_OK)
        rc = message_staging_next_stored(&messages->staging, &message, err);
    while (rc == HVD_OK && message != NULL) {
        *movedp = true;
        end_message(messages, message, HVD_OK, NULL);
        rc = message_staging_next_stored(&messages->staging, &message, err);
    }
    return rc;
}

int messages_advance(struct messages *messages, bool *movedp, struct hvd_error *err)
{
    struct failure *failure = messages->failure;
    int rank = -1;
    if (failure->announced || failure_is_suspected(failure))
        return HVD_OK;
    check_stalls(messages, movedp);
    int rc = advance_staged(messages, movedp, err);
    if (rc != HVD_OK)
        return rc;
    rc = p2p_advance(messages->p2p, movedp, &rank, err);
    if (rc == HVD_OK)
        rc = message_direct_advance(&messages->direct, movedp, err);
    if (rc != HVD_ERR_RANK_LOST)
        return rc;
    failure_suspect(failure, rank, err);
    return HVD_OK;
}

int64_t messages_deadline(const struct messages *messages)
{
    int64_t staging_us = message_staging_deadline(&messages->staging);
    int64_t direct_us = message_direct_deadline(&messages->direct);
    int64_t gpu_us = staging_us < direct_us ? staging_us : direct_us;
    int64_t p2p_us = p2p_deadline(messages->p2p);
    return gpu_us < p2p_us ? gpu_us : p2p_us;
}

bool messages_leave(struct messages *messages)
{
    if (message_staging_holds_sends(&messages->staging) || message_direct_is_busy(&messages->direct))
        return false;
    p2p_leave(messages->p2p);
    return !p2p_is_connecting(messages->p2p);
}

void messages_end(struct messages *messages, hvd_set set, int status, const char *reason)
{
    struct message *message = message_staging_withdraw(&messages->staging, set);
    for (; message != NULL; message = message_staging_withdraw(&messages->staging, set))
        end_message(messages, message, status, reason);
    finish_read_clock(messages->finish);
    if (set != TENSOR_QUEUE_ALL_SETS) {
        p2p_end_set(messages->p2p, set, status, reason);
        return;
    }
    tensor_queue_refuse_messages(messages->finish->queue);
    message_direct_end(&messages->direct, status, reason);
    for (message = message_staging_withdraw_wanted(&messages->staging); message != NULL;
         message = message_staging_withdraw_wanted(&messages->staging))
        p2p_end(messages->p2p, &message->op, status, reason);
    p2p_abandon(messages->p2p, status, reason);
    struct request *request = tensor_queue_take_messages(messages->finish->queue);
    while (request != NULL) {
        struct request *next = request->next;
        finish_request(messages->finish, request, status, reason);
        request = next;
    }
}

void messages_fini(struct messages *messages)
{
    message_direct_fini(&messages->direct);
    p2p_destroy(messages->p2p);
    messages->p2p = NULL;
}
