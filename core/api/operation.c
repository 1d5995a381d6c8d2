/* operation.c: turn the arguments of a call into a request and submit it to the loop. */
#include "api/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank_list.h"
#include "api/arguments.h"
#include "base/dtype.h"
#include "base/hash.h"

/* ---- Requests ----------------------------------------------------------------------------------- */

static void describe_tensor(const struct arguments *arguments, int index, struct desc_tensor *to)
{
    const struct hvd_tensor *tensor = &arguments->tensors[index];
    to->dtype = tensor->dtype;
    to->on_device = arguments_on_device(arguments, index);
    to->ndim = tensor->ndim;
    memcpy(to->shape, tensor->shape, (size_t)tensor->ndim * sizeof(to->shape[0]));
    if (desc_is_sized_later(arguments->kind))
        to->shape[0] = 0;
    memcpy(to->name, tensor->name, strlen(tensor->name) + 1);
}

/* Splits that all members must give alike: a hash of them, which is not 0. */
static uint64_t hash_of_splits(const struct arguments *arguments, int size)
{
    if (arguments->kind != DESC_REDUCESCATTER || arguments->splits == NULL)
        return 0;
    uint64_t hash = hash_bytes(arguments->splits, (size_t)size * sizeof(*arguments->splits));
    return hash != 0 ? hash : 1;
}

static struct desc *describe(const struct arguments *arguments, int size)
{
    struct desc *desc = desc_create(arguments->count);
    if (desc == NULL)
        return NULL;
    desc->kind = arguments->kind;
    desc->set = arguments->options->set;
    desc->grouped = arguments->grouped;
    desc->persistent = arguments->persistent;
    desc->root = arguments->root;
    desc->splits = hash_of_splits(arguments, size);
    if (desc_reduces(arguments->kind)) {
        desc->op = arguments->op;
        desc->wire = arguments->options->wire;
        desc->prescale = arguments->options->prescale;
        desc->postscale = arguments->options->postscale;
    }
    for (int i = 0; i < arguments->count; i++)
        describe_tensor(arguments, i, &desc->tensors[i]);
    return desc;
}

/* Set the memory of a tensor: its input and its output. */
static void set_buffers(const struct arguments *arguments, const struct membership *membership, int index,
                        struct request_tensor *request_tensor)
{
    const struct hvd_tensor *tensor = &arguments->tensors[index];
    bool reads = arguments_read_input(arguments, membership);
    request_tensor->input = reads ? tensor->input : tensor->output;
    request_tensor->output = tensor->output;
}

static void fill_tensor(const struct arguments *arguments, const struct membership *membership, int index,
                        struct request_tensor *request_tensor)
{
    const struct hvd_tensor *tensor = &arguments->tensors[index];
    bool sends = arguments->kind != DESC_SCATTER || arguments_read_input(arguments, membership);
    set_buffers(arguments, membership, index, request_tensor);
    request_tensor->result = arguments->results == NULL ? NULL : &arguments->results[index];
    request_tensor->count = sends ? arguments_element_count(tensor) : 0;
    request_tensor->bytes = request_tensor->count * (int64_t)dtype_bytes(tensor->dtype);
    request_tensor->rows = arguments->kind == DESC_ALLGATHER ? tensor->shape[0] : 0;
}

/* The rows for [member]. */
static int64_t split_for(const struct arguments *arguments, const struct membership *membership, int member)
{
    int64_t rows = arguments->tensors[0].shape[0];
    if (!arguments_read_input(arguments, membership))
        return 0;
    if (arguments->kind == DESC_GATHER)
        return member == membership->root ? rows : 0;
    return arguments->splits != NULL ? arguments->splits[member] : rows / membership->size;
}

static int64_t *make_splits(const struct arguments *arguments, const struct membership *membership)
{
    int64_t *splits = malloc((size_t)membership->size * sizeof(*splits));
    for (int i = 0; splits != NULL && i < membership->size; i++)
        splits[i] = split_for(arguments, membership, i);
    return splits;
}

static int no_memory(const char *title)
{
    return error_set(context_error(), HVD_ERR_NO_MEMORY, "%s: no memory to submit it", title);
}

struct desc *operation_internal_desc(enum desc_kind kind, hvd_set set, const char *name)
{
    struct desc *desc = desc_create(1);
    if (desc == NULL) {
        no_memory("an internal operation of hvd");
        return NULL;
    }
    desc->kind = kind;
    desc->set = set;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "%s", name);
    return desc;
}

struct request *operation_request(const struct context *context, struct desc *desc)
{
    char title[DESC_TITLE_BYTES];
    if (desc == NULL)
        return NULL;
    struct request *request = request_create(desc);
    if (request != NULL)
        request->backends = loop_backends(context->loop, desc);
    else {
        desc_title(desc, title, sizeof(title));
        no_memory(title);
    }
    desc_release(desc);
    return request;
}

/* Free a request that is not submitted after all, whether it is new or was used before. */
static void discard(const struct context *context, struct request *request)
{
    tensor_queue_discard(loop_tensor_queue(context->loop), request);
}

/* Make the request of [arguments]. */
static int make_request(const struct context *context, const struct arguments *arguments,
                        const struct membership *membership, struct request **requestp)
{
    char title[ARGUMENTS_TITLE_BYTES];
    int rc = arguments_check(arguments, membership, context_error());
    if (rc != HVD_OK)
        return rc;
    struct desc *desc = describe(arguments, membership->size);
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return no_memory(arguments_title(arguments, 0, title));
    bool has_splits = desc_is_alltoall(arguments->kind) || arguments->splits != NULL;
    request->reusable = !has_splits; /* because they usually differ */
    for (int i = 0; i < arguments->count; i++)
        fill_tensor(arguments, membership, i, &request->tensors[i]);
    if (has_splits) {
        request->splits = make_splits(arguments, membership);
        if (request->splits == NULL)
            rc = no_memory(arguments_title(arguments, 0, title));
    }
    if (rc == HVD_OK && request->backends == 0)
        rc = error_set(
            context_error(), HVD_ERR_UNSUPPORTED,
            "%s: no backend of this rank supports %s tensors in process set %d; see the option backends",
            arguments_title(arguments, 0, title), dtype_name(arguments->tensors[0].dtype), membership->set);
    if (rc != HVD_OK) {
        discard(context, request);
        return rc;
    }
    *requestp = request;
    return HVD_OK;
}

/* The request of an earlier call by the same name, unless it is still in flight; otherwise NULL. */
static struct request *take_finished_request(const struct context *context, const struct arguments *arguments)
{
    if (arguments->tensors == NULL || arguments->count < 1 || arguments->tensors[0].name == NULL)
        return NULL;
    return tensor_queue_reuse(loop_tensor_queue(context->loop), arguments->options->set,
                              arguments->tensors[0].name);
}

/* Use [request] again. */
static int reuse_request(const struct context *context, const struct arguments *arguments,
                         const struct membership *membership, struct request *request)
{
    int rc = arguments_check_again(arguments, membership, context_error());
    if (rc != HVD_OK) {
        discard(context, request);
        return rc;
    }
    for (int i = 0; i < arguments->count; i++)
        if (arguments->kind == DESC_ALLGATHER)
            fill_tensor(arguments, membership, i, &request->tensors[i]);
        else
            set_buffers(arguments, membership, i, &request->tensors[i]);
    return HVD_OK;
}

/* ---- Sets --------------------------------------------------------------------------------------- */

/* Returns HVD_ERR_SET, with a sentence that begins with [title], if there is no such set or this rank is no
 * member. */
static int check_member(const struct context *context, hvd_set set, const char *title)
{
    struct set_registry *set_registry = loop_set_registry(context->loop);
    int members[64];
    char text[RANK_LIST_TEXT_BYTES];
    if (set == HVD_ALL_RANKS || set_registry_rank(set_registry, set) >= 0)
        return HVD_OK;
    int count = set_registry_ranks(set_registry, set, members, 64);
    if (count < 0)
        return error_set(context_error(), HVD_ERR_SET,
                         "%s: there is no process set %d; hvd_set_add creates one and returns its number",
                         title, set);
    return error_set(context_error(), HVD_ERR_SET,
                     "%s: rank %d is not a member of process set %d (ranks %s%s); only members may call",
                     title, context->bootstrap.job.rank, set,
                     rank_list_text(members, count < 64 ? count : 64, text, sizeof(text)),
                     count > 64 ? "..." : "");
}

int operation_find_membership(const struct context *context, const struct arguments *arguments,
                              struct membership *membership)
{
    const struct hvd_job *job = &context->bootstrap.job;
    struct set_registry *set_registry = loop_set_registry(context->loop);
    hvd_set set = arguments->options->set;
    char title[ARGUMENTS_TITLE_BYTES];
    *membership = (struct membership){set, job->rank, job->size, -1};
    if (set != HVD_ALL_RANKS) {
        membership->rank = set_registry_rank(set_registry, set);
        membership->size = set_registry_size(set_registry, set);
        membership->root = set_registry_member(set_registry, set, arguments->root);
    } else if (arguments->root >= 0 && arguments->root < job->size) {
        membership->root = arguments->root;
    }
    return membership->rank >= 0 ? HVD_OK : check_member(context, set, arguments_title(arguments, 0, title));
}

/* ---- Submitting --------------------------------------------------------------------------------- */

static int submit_async(struct context *context, struct request *request, const struct completion *completion)
{
    request->done = completion->done;
    request->arg = completion->arg;
    return loop_submit(context->loop, request, true, completion->handlep, context_error());
}

/* This thread drives its own operation, so it needs no wake-up. */
int operation_run(struct context *context, struct request *request)
{
    hvd_handle handle = 0;
    int rc = loop_submit(context->loop, request, false, &handle, context_error());
    return rc == HVD_OK ? loop_wait(context->loop, handle, INT64_MAX, context_error()) : rc;
}

/* Refuse a call that waits inside a callback, before anything is made for it. */
static int check_may_wait(const struct context *context, const struct completion *completion)
{
    return completion != NULL
               ? HVD_OK
               : loop_check_not_in_callback(context->loop, "a call without _async", context_error());
}

int operation_run_element(struct context *context, struct desc *desc, void *element)
{
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return HVD_ERR_NO_MEMORY;
    request->tensors[0].input = element;
    request->tensors[0].output = element;
    request->tensors[0].count = 1;
    request->tensors[0].bytes = (int64_t)dtype_bytes(request->desc->tensors[0].dtype);
    return operation_run(context, request);
}

/* Results on the GPU lie in the program's memory. */
static int check_result_memory(const struct arguments *arguments, int index)
{
    char title[ARGUMENTS_TITLE_BYTES];
    if (arguments->results == NULL || arguments->results[index].allocate != NULL)
        return HVD_OK;
    return error_set(context_error(), HVD_ERR_INVALID,
                     "%s: the tensor is on a GPU, but result.allocate is NULL; set it, and return memory of "
                     "that GPU",
                     arguments_title(arguments, index, title));
}

/* Find out which tensors are on the GPU; [words] has a bit for each. */
static int find_gpu_tensors(const struct context *context, struct arguments *arguments,
                            uint64_t words[ARGUMENTS_BIT_WORDS])
{
    struct hvd_error why;
    char title[ARGUMENTS_TITLE_BYTES];
    int count = arguments->tensors == NULL || arguments->count > HVD_MAX_GROUP ? 0 : arguments->count;
    for (int i = 0; i < count; i++) {
        bool on_device = false;
        int rc = gpu_find(loop_gpu(context->loop), &arguments->tensors[i], &on_device, &why);
        if (rc != HVD_OK)
            return error_set(context_error(), rc, "%s: %s", arguments_title(arguments, i, title), why.text);
        if (!on_device)
            continue;
        rc = check_result_memory(arguments, i);
        if (rc != HVD_OK)
            return rc;
        if (arguments->on_device == NULL)
            memset(words, 0, ARGUMENTS_BIT_WORDS * sizeof(*words));
        arguments->on_device = words;
        words[i / 64] |= UINT64_C(1) << i % 64;
    }
    return HVD_OK;
}

/* Where the tensors are in memory of hvd_alloc_on: a hash of all their offsets; 0: not all are in it, or
 * results are elsewhere. */
static uint64_t offsets_of(struct gpu *gpu, const struct request *request)
{
    enum desc_kind kind = request->desc->kind;
    uint64_t all = 0;
    if (kind != DESC_ALLREDUCE && kind != DESC_BROADCAST && kind != DESC_REDUCESCATTER)
        return 0;
    for (int i = 0; i < request->tensor_count; i++) {
        const struct request_tensor *tensor = &request->tensors[i];
        uint64_t offsets = gpu_memory_offsets(gpu, tensor->input, tensor->output, tensor->bytes);
        if (offsets == 0)
            return 0;
        all = hash_mix(all, offsets);
    }
    return all != 0 ? all : 1;
}

int operation_mark_ready(const struct context *context, const struct arguments *arguments,
                         struct request *request)
{
    struct gpu *gpu = loop_gpu(context->loop);
    struct hvd_error why;
    char title[ARGUMENTS_TITLE_BYTES];
    int rc = gpu_check_stream(gpu, arguments->options->stream, &why);
    if (rc != HVD_OK)
        error_set(context_error(), rc, "%s: %s", arguments_title(arguments, 0, title), why.text);
    else
        rc = gpu_mark(gpu, arguments->options->stream, &request->ready, context_error());
    if (rc == HVD_OK)
        request->offsets = offsets_of(gpu, request);
    else
        discard(context, request);
    return rc;
}

/* Did the earlier call find the same memory to be the host's? Most programs pass the same memory in every
 * step, for which CUDA need not be asked again. */
static bool is_host_memory_again(const struct arguments *arguments, const struct request *request)
{
    if (arguments->count != request->tensor_count)
        return false;
    for (int i = 0; i < arguments->count; i++) {
        const struct hvd_tensor *tensor = &arguments->tensors[i];
        const struct request_tensor *earlier = &request->tensors[i];
        bool same_input = tensor->input == earlier->input || tensor->input == NULL;
        bool same_output = tensor->output == earlier->output || tensor->output == NULL;
        if (request->desc->tensors[i].on_device || tensor->memory > HVD_MEMORY_HOST || !same_input ||
            !same_output)
            return false;
    }
    return true;
}

/* Find where the tensors are, and the request of an earlier call with the same arguments; *requestp: NULL
 * where there is none. */
static int recognise(const struct context *context, struct arguments *arguments,
                     uint64_t words[ARGUMENTS_BIT_WORDS], struct request **requestp)
{
    struct request *request = take_finished_request(context, arguments);
    bool known = request != NULL && is_host_memory_again(arguments, request);
    int rc = known ? HVD_OK : find_gpu_tensors(context, arguments, words);
    if (request != NULL && (rc != HVD_OK || !arguments_match_desc(arguments, request->desc))) {
        discard(context, request);
        request = NULL;
    }
    *requestp = request;
    return rc;
}

int operation_perform(const struct arguments *given, const struct completion *completion)
{
    struct context *context = context_require();
    struct arguments arguments = *given; /* they get the options, and which tensors are on the GPU */
    struct hvd_options options;
    struct membership membership;
    struct request *request = NULL;
    uint64_t words[ARGUMENTS_BIT_WORDS];
    if (context == NULL)
        return HVD_ERR_STATE;
    int rc = check_may_wait(context, completion);
    if (rc == HVD_OK)
        rc = arguments_take_options(&arguments, &options, context_error());
    if (rc == HVD_OK)
        rc = operation_find_membership(context, &arguments, &membership);
    if (rc == HVD_OK)
        rc = recognise(context, &arguments, words, &request);
    if (rc != HVD_OK)
        return rc;
    if (request != NULL)
        rc = reuse_request(context, &arguments, &membership, request);
    else
        rc = make_request(context, &arguments, &membership, &request);
    if (rc == HVD_OK && arguments.on_device != NULL)
        rc = operation_mark_ready(context, &arguments, request);
    if (rc != HVD_OK)
        return rc;
    return completion == NULL ? operation_run(context, request) : submit_async(context, request, completion);
}

/* The same calls make a request for a persistent operation, but none is used again. */
static int make_persistent_request(const struct context *context, struct arguments *arguments,
                                   struct request **requestp)
{
    struct membership membership;
    uint64_t words[ARGUMENTS_BIT_WORDS];
    int rc = operation_find_membership(context, arguments, &membership);
    if (rc == HVD_OK)
        rc = find_gpu_tensors(context, arguments, words);
    if (rc == HVD_OK)
        rc = make_request(context, arguments, &membership, requestp);
    if (rc != HVD_OK)
        return rc;
    (*requestp)->reusable = false;
    if (arguments->on_device != NULL)
        (*requestp)->offsets = offsets_of(loop_gpu(context->loop), *requestp);
    return HVD_OK;
}

int operation_make_persistent(const struct arguments *given, hvd_persistent *persistentp)
{
    struct context *context = context_require();
    struct arguments arguments = *given; /* they get the options, and which tensors are on the GPU */
    struct hvd_options options;
    struct request *request = NULL;
    char title[ARGUMENTS_TITLE_BYTES];
    if (context == NULL)
        return HVD_ERR_STATE;
    arguments.persistent = true;
    if (persistentp == NULL)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "%s: persistentp is NULL; pass the address of an hvd_persistent",
                         arguments_title(&arguments, 0, title));
    int rc = loop_check_not_in_callback(context->loop, "a call that ends in _init", context_error());
    if (rc == HVD_OK)
        rc = arguments_take_options(&arguments, &options, context_error());
    if (rc == HVD_OK)
        rc = make_persistent_request(context, &arguments, &request);
    return rc == HVD_OK ? loop_make_persistent(context->loop, request, persistentp, context_error()) : rc;
}

int operation_perform_without_tensors(enum desc_kind kind, hvd_set set, int *last_rankp,
                                      const struct completion *completion)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    bool joins = kind == DESC_JOIN;
    int rc = check_may_wait(context, completion);
    if (rc == HVD_OK)
        rc = check_member(context, set, joins ? "join" : "barrier");
    if (rc != HVD_OK)
        return rc;
    struct desc *desc = operation_internal_desc(kind, set, joins ? DESC_JOIN_NAME : DESC_BARRIER_NAME);
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return HVD_ERR_NO_MEMORY;
    request->last_rankp = last_rankp;
    return completion == NULL ? operation_run(context, request) : submit_async(context, request, completion);
}
