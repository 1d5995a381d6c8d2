/* messages.c: sends and receives: from a request to p2p/, which carries them, and to their end. */
#include "flow/messages.h"

#include "flow/stall_inspector.h"

static void end_tensor(void *arg, struct p2p_op *op, int status, const char *reason)
{
    struct messages *messages = arg;
    finish_read_clock(messages->finish);
    finish_tensor(messages->finish, op->user, status, reason);
}

/* Sets are numbered upwards: one that is unknown and not new was removed. */
static bool set_is_over(void *arg, hvd_set set)
{
    const struct messages *messages = arg;
    return set_registry_was_removed(messages->set_registry, set);
}

int messages_init(struct messages *messages, const struct backends *backends, struct hvd_error *err)
{
    const struct backend_env *env = &backends->env;
    bool shares = (backends_available(backends) >> BACKEND_SHM & 1) != 0;
    const struct hvd_config *config = env->config;
    const struct p2p_params params = {.peer_table = env->peer_table,
                                      .log = env->log,
                                      .endpoint = env->message_endpoint,
                                      .arena = shares ? env->arena : (struct arena){0},
                                      .epoll_fd = env->epoll_fd,
                                      .ended = end_tensor,
                                      .set_is_over = set_is_over,
                                      .limits = {.warn_us = config->stall_warn_us,
                                                 .abort_us = config->stall_abort_us,
                                                 .hang_us = config_hang_limit(config)},
                                      .arg = messages};
    return p2p_create(&messages->p2p, &params, err);
}

/* All of a group begin before any of them is waited for. The last one that ends frees the request. After an
 * error the job ends, and those that have begun with it. */
static int begin_all(struct messages *messages, struct request *request, struct hvd_error *err)
{
    int count = request->tensor_count, rc = HVD_OK;
    for (int i = 0; i < count; i++) {
        struct p2p_op *op = &request->messages[i];
        op->user = &request->tensors[i];
        if (rc == HVD_OK)
            rc = p2p_begin(messages->p2p, op, err);
        else
            end_tensor(messages, op, rc, err->text);
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
    const struct request_tensor *tensor = stalled.op->user;
    *movedp = true;
    stall_inspector_report_message(messages->failure, tensor->request->desc, tensor->index, &stalled);
}

int messages_advance(struct messages *messages, bool *movedp, struct hvd_error *err)
{
    struct failure *failure = messages->failure;
    int rank = -1;
    if (failure->announced || failure_is_suspected(failure))
        return HVD_OK;
    check_stalls(messages, movedp);
    int rc = p2p_advance(messages->p2p, movedp, &rank, err);
    if (rc != HVD_ERR_RANK_LOST)
        return rc;
    failure_suspect(failure, rank, err);
    return HVD_OK;
}

bool messages_leave(struct messages *messages)
{
    p2p_leave(messages->p2p);
    return !p2p_is_connecting(messages->p2p);
}

void messages_end(struct messages *messages, hvd_set set, int status, const char *reason)
{
    finish_read_clock(messages->finish);
    if (set != TENSOR_QUEUE_ALL_SETS) {
        p2p_end_set(messages->p2p, set, status, reason);
        return;
    }
    tensor_queue_refuse_messages(messages->finish->queue);
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
    p2p_destroy(messages->p2p);
    messages->p2p = NULL;
}
