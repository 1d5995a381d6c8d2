/* messages.c: the public calls for messages between two ranks. */
#include <stdlib.h>
#include <string.h>

#include "api/operation.h"
#include "base/dtype.h"
#include "flow/message.h"

/* The messages of one call. */
struct group {
    enum desc_kind kind; /* SEND, RECV or EXCHANGE */
    const struct hvd_message *messages;
    int count;
    const struct hvd_options *options;
    uint64_t *on_device; /* a bit for each message: is its tensor on a GPU? */
    bool any_on_device;
};

static struct arguments arguments_of(const struct group *group, int index)
{
    const struct hvd_message *message = &group->messages[index];
    return (struct arguments){.kind = message->direction == HVD_SEND ? DESC_SEND : DESC_RECV,
                              .tensors = &message->tensor,
                              .count = 1,
                              .options = group->options,
                              .root = message->rank,
                              .tag = message->tag};
}

/* ---- Checks -------------------------------------------------------------------------------------- */

static int find_memory(const struct context *context, const struct arguments *arguments, struct group *group,
                       int index, struct hvd_error *err)
{
    struct hvd_error why;
    char title[ARGUMENTS_TITLE_BYTES];
    bool on_device = false;
    int rc = gpu_find(loop_gpu(context->loop), arguments->tensors, &on_device, &why);
    if (rc != HVD_OK)
        return error_set(err, rc, "%s: %s", arguments_title(arguments, 0, title), why.text);
    if (index % 64 == 0)
        group->on_device[index / 64] = 0;
    group->on_device[index / 64] |= (uint64_t)on_device << index % 64;
    group->any_on_device |= on_device;
    return HVD_OK;
}

static int check_message(const struct context *context, struct group *group, int index, struct hvd_error *err)
{
    const struct arguments arguments = arguments_of(group, index);
    struct membership membership;
    unsigned direction = (unsigned)group->messages[index].direction;
    if (direction > HVD_RECV)
        return error_set(err, HVD_ERR_INVALID, "direction is %d, which is not in enum hvd_direction",
                         (int)direction);
    int rc = operation_find_membership(context, &arguments, &membership);
    if (rc != HVD_OK) /* it has set the sentence of this thread */
        return error_set(err, rc, "%s", context_error()->text);
    rc = arguments_check_message(&arguments, &membership, err);
    return rc == HVD_OK ? find_memory(context, &arguments, group, index, err) : rc;
}

static int check_group(const struct context *context, struct group *group)
{
    struct hvd_error why;
    if (group->count < 1 || group->count > HVD_MAX_GROUP)
        return error_set(context_error(), HVD_ERR_INVALID, "exchange: count is %d; expected 1 to %d messages",
                         group->count, HVD_MAX_GROUP);
    if (group->messages == NULL)
        return error_set(context_error(), HVD_ERR_INVALID, "exchange: the pointer to the messages is NULL");
    for (int i = 0; i < group->count; i++) {
        int rc = check_message(context, group, i, &why);
        if (rc != HVD_OK && group->kind == DESC_EXCHANGE)
            return error_set(context_error(), rc, "exchange, messages[%d]: %s", i, why.text);
        if (rc != HVD_OK)
            return error_set(context_error(), rc, "%s", why.text);
    }
    return HVD_OK;
}

/* ---- Requests ------------------------------------------------------------------------------------ */

/* Write [text] and [number], which is not negative, at [to]; returns their end. snprintf would take longer
 * than all else that a small message costs its sender. */
static char *append(char *to, const char *text, int number)
{
    char digits[12];
    char *first = digits + sizeof(digits) - 1;
    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return stpcpy(stpcpy(to, text), first);
}

static void describe_message(const struct hvd_message *message, struct desc_tensor *to)
{
    to->dtype = message->tensor.dtype;
    to->ndim = message->tensor.ndim;
    memcpy(to->shape, message->tensor.shape, (size_t)to->ndim * sizeof(to->shape[0]));
    char *end = to->name;
    if (message->rank == HVD_ANY_SOURCE)
        end = stpcpy(end, "from any rank");
    else
        end = append(end, message->direction == HVD_SEND ? "to rank " : "from rank ", message->rank);
    append(end, " with tag ", message->tag);
}

static void fill_message(const struct context *context, const struct group *group, int index,
                         struct message *to)
{
    const struct hvd_message *message = &group->messages[index];
    bool sends = message->direction == HVD_SEND;
    int64_t count = arguments_element_count(&message->tensor);
    *to = (struct message){
        .op = {.direction = sends ? P2P_SEND : P2P_RECEIVE,
               .envelope = {.set = group->options->set,
                            .source = sends ? context->bootstrap.job.rank : message->rank,
                            .tag = message->tag},
               .to = message->rank,
               .dtype = message->tensor.dtype,
               .memory = sends ? (void *)(uintptr_t)message->tensor.input : message->tensor.output,
               .bytes = count * (int64_t)dtype_bytes(message->tensor.dtype),
               .sourcep = message->sourcep}};
    if ((group->on_device[index / 64] >> index % 64 & 1) != 0 && to->op.bytes > 0)
        to->on_gpu = to->op.memory;
}

static struct request *make_request(const struct context *context, const struct group *group)
{
    struct desc *desc = desc_create(group->count);
    if (desc == NULL)
        return NULL;
    desc->kind = group->kind;
    desc->set = group->options->set;
    desc->grouped = group->kind == DESC_EXCHANGE;
    for (int i = 0; i < group->count; i++)
        describe_message(&group->messages[i], &desc->tensors[i]);
    struct request *request = request_create(desc);
    desc_release(desc);
    if (request == NULL)
        return NULL;
    request->messages = malloc((size_t)group->count * sizeof(*request->messages));
    if (request->messages == NULL) {
        request_free(request);
        return NULL;
    }
    for (int i = 0; i < group->count; i++) {
        fill_message(context, group, i, &request->messages[i]);
        request->tensors[i].bytes = request->messages[i].op.bytes;
    }
    return request;
}

static int submit(struct context *context, struct request *request, const struct completion *completion)
{
    if (completion == NULL)
        return operation_run(context, request);
    request->done = completion->done;
    request->arg = completion->arg;
    return loop_submit(context->loop, request, true, completion->handlep, context_error());
}

/* [completion] NULL: wait. */
static int perform(const struct group *given, const struct completion *completion)
{
    struct context *context = context_require();
    struct group group = *given;
    struct arguments arguments = {.kind = group.kind, .options = group.options};
    struct hvd_options room;
    uint64_t words[ARGUMENTS_BIT_WORDS];
    if (context == NULL)
        return HVD_ERR_STATE;
    int rc = completion != NULL
                 ? HVD_OK
                 : loop_check_not_in_callback(context->loop, "a call without _async", context_error());
    if (rc == HVD_OK)
        rc = arguments_take_options(&arguments, &room, context_error());
    if (rc != HVD_OK)
        return rc;
    group.options = arguments.options;
    group.on_device = words;
    rc = check_group(context, &group);
    if (rc != HVD_OK)
        return rc;
    struct request *request = make_request(context, &group);
    if (request == NULL)
        return error_set(context_error(), HVD_ERR_NO_MEMORY, "%s: no memory to submit it",
                         desc_kind_name(group.kind));
    if (group.any_on_device)
        rc = operation_mark_ready(context, &arguments, request);
    return rc == HVD_OK ? submit(context, request, completion) : rc;
}

/* ---- The calls, in the order of hvd.h ------------------------------------------------------------ */

/* A group of one. */
static int perform_one(const struct hvd_message *ends, const struct hvd_tensor *tensor,
                       const struct hvd_options *options, const struct completion *completion)
{
    struct hvd_message message = *ends;
    enum desc_kind kind = ends->direction == HVD_SEND ? DESC_SEND : DESC_RECV;
    if (tensor == NULL)
        return error_set(context_error(), HVD_ERR_INVALID, "%s: the pointer to the tensor is NULL",
                         desc_kind_name(kind));
    message.tensor = *tensor;
    return perform(&(struct group){.kind = kind, .messages = &message, .count = 1, .options = options},
                   completion);
}

enum hvd_status hvd_send(const struct hvd_tensor *tensor, int rank, int tag,
                         const struct hvd_options *options)
{
    const struct hvd_message ends = {.direction = HVD_SEND, .rank = rank, .tag = tag};
    return perform_one(&ends, tensor, options, NULL);
}

enum hvd_status hvd_send_async(const struct hvd_tensor *tensor, int rank, int tag,
                               const struct hvd_options *options, hvd_done_f done, void *arg,
                               hvd_handle *handlep)
{
    const struct hvd_message ends = {.direction = HVD_SEND, .rank = rank, .tag = tag};
    return perform_one(&ends, tensor, options, &(struct completion){done, arg, handlep});
}

enum hvd_status hvd_recv(const struct hvd_tensor *tensor, int rank, int tag,
                         const struct hvd_options *options, int *sourcep)
{
    const struct hvd_message ends = {.direction = HVD_RECV, .rank = rank, .tag = tag, .sourcep = sourcep};
    return perform_one(&ends, tensor, options, NULL);
}

enum hvd_status hvd_recv_async(const struct hvd_tensor *tensor, int rank, int tag,
                               const struct hvd_options *options, int *sourcep, hvd_done_f done, void *arg,
                               hvd_handle *handlep)
{
    const struct hvd_message ends = {.direction = HVD_RECV, .rank = rank, .tag = tag, .sourcep = sourcep};
    return perform_one(&ends, tensor, options, &(struct completion){done, arg, handlep});
}

enum hvd_status hvd_exchange(const struct hvd_message *messages, int count, const struct hvd_options *options)
{
    const struct group group = {
        .kind = DESC_EXCHANGE, .messages = messages, .count = count, .options = options};
    return perform(&group, NULL);
}

enum hvd_status hvd_exchange_async(const struct hvd_message *messages, int count,
                                   const struct hvd_options *options, hvd_done_f done, void *arg,
                                   hvd_handle *handlep)
{
    const struct group group = {
        .kind = DESC_EXCHANGE, .messages = messages, .count = count, .options = options};
    return perform(&group, &(struct completion){done, arg, handlep});
}
