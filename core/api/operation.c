/* operation.c: what a caller asks for becomes a request, and is handed to the loop. */
#include "api/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank_list.h"
#include "api/arguments.h"

static const struct hvd_options plain = HVD_OPTIONS_INIT;

/* ---- Requests ----------------------------------------------------------------------------------- */

static void describe_tensor(enum desc_kind kind, const struct hvd_tensor *tensor, struct desc_tensor *to)
{
    to->dtype = tensor->dtype;
    to->ndim = tensor->ndim;
    memcpy(to->shape, tensor->shape, (size_t)tensor->ndim * sizeof(to->shape[0]));
    if (kind == DESC_ALLGATHER || kind == DESC_ALLTOALL)
        to->shape[0] = 0;
    memcpy(to->name, tensor->name, strlen(tensor->name) + 1);
}

static struct desc *describe(const struct ask *ask)
{
    struct desc *desc = desc_create(ask->count);
    if (desc == NULL)
        return NULL;
    desc->kind = ask->kind;
    desc->set = ask->options->set;
    desc->grouped = ask->grouped;
    desc->root = ask->root;
    if (ask->kind == DESC_ALLREDUCE || ask->kind == DESC_REDUCESCATTER) {
        desc->op = ask->op;
        desc->wire = ask->options->wire;
        desc->prescale = ask->options->prescale;
        desc->postscale = ask->options->postscale;
    }
    for (int i = 0; i < ask->count; i++)
        describe_tensor(ask->kind, &ask->tensors[i], &desc->tensors[i]);
    return desc;
}

/* Where a tensor is. */
static void place_piece(const struct ask *ask, const struct standing *standing, int index,
                        struct piece *piece)
{
    const struct hvd_tensor *tensor = &ask->tensors[index];
    bool reads = ask->kind != DESC_BROADCAST || standing->rank == standing->root;
    piece->input = reads ? tensor->input : tensor->output;
    piece->output = tensor->output;
}

static void fill_piece(const struct ask *ask, const struct standing *standing, int index, struct piece *piece)
{
    const struct hvd_tensor *tensor = &ask->tensors[index];
    place_piece(ask, standing, index, piece);
    piece->result = ask->results == NULL ? NULL : &ask->results[index];
    piece->count = ask_count(tensor);
    piece->bytes = piece->count * (int64_t)dtype_bytes(tensor->dtype);
    piece->rows = ask->kind == DESC_ALLGATHER || ask->kind == DESC_ALLTOALL ? tensor->shape[0] : 0;
}

static int64_t *copy_splits(const struct ask *ask, int size)
{
    int64_t *splits = malloc((size_t)size * sizeof(*splits));
    for (int i = 0; splits != NULL && i < size; i++)
        splits[i] = ask->splits != NULL ? ask->splits[i] : ask->tensors[0].shape[0] / size;
    return splits;
}

static int no_memory(const char *title)
{
    return error_set(context_error(), HVD_ERR_NO_MEMORY, "%s: no memory to hand it in", title);
}

struct desc *operation_own(enum desc_kind kind, hvd_set set, const char *name)
{
    struct desc *desc = desc_create(1);
    if (desc == NULL) {
        no_memory("an operation of hvd's own");
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
        request->planes = loop_planes(context->loop, desc);
    else {
        desc_title(desc, title, sizeof(title));
        no_memory(title);
    }
    desc_release(desc);
    return request;
}

/* The request of [ask]. */
static int make_request(const struct context *context, const struct ask *ask, const struct standing *standing,
                        struct request **requestp)
{
    char title[ASK_TITLE_BYTES];
    int rc = ask_check(ask, standing, context_error());
    if (rc != HVD_OK)
        return rc;
    struct desc *desc = describe(ask);
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return no_memory(ask_title(ask, 0, title));
    request->returns = ask->kind != DESC_ALLTOALL; /* whose splits mostly differ */
    for (int i = 0; i < ask->count; i++)
        fill_piece(ask, standing, i, &request->pieces[i]);
    if (ask->kind == DESC_ALLTOALL) {
        request->splits = copy_splits(ask, standing->size);
        if (request->splits == NULL)
            rc = no_memory(ask_title(ask, 0, title));
    }
    if (rc == HVD_OK && request->planes == 0)
        rc =
            error_set(context_error(), HVD_ERR_UNSUPPORTED,
                      "%s: no plane of this rank carries %s tensors in process set %d; see the option planes",
                      ask_title(ask, 0, title), dtype_name(ask->tensors[0].dtype), standing->set);
    if (rc != HVD_OK) {
        request_free(request);
        return rc;
    }
    *requestp = request;
    return HVD_OK;
}

/* The request of what was asked for before, unless it is still in flight; otherwise NULL. */
static struct request *recall(const struct context *context, const struct ask *ask)
{
    if (ask->tensors == NULL || ask->count < 1 || ask->tensors[0].name == NULL)
        return NULL;
    struct request *request = loop_recall(context->loop, ask->options->set, ask->tensors[0].name);
    if (request == NULL || ask_repeats(ask, request->desc))
        return request;
    loop_discard(context->loop, request);
    return NULL;
}

/* Use [request] once more. */
static int remake_request(const struct context *context, const struct ask *ask,
                          const struct standing *standing, struct request *request)
{
    int rc = ask_check_again(ask, standing, context_error());
    if (rc != HVD_OK) {
        loop_discard(context->loop, request);
        return rc;
    }
    for (int i = 0; i < ask->count; i++)
        if (ask->kind == DESC_ALLGATHER)
            fill_piece(ask, standing, i, &request->pieces[i]);
        else
            place_piece(ask, standing, i, &request->pieces[i]);
    return HVD_OK;
}

/* ---- Sets --------------------------------------------------------------------------------------- */

int operation_check_set(const struct context *context, hvd_set set, const char *title)
{
    struct teams *teams = loop_teams(context->loop);
    int members[64];
    char text[RANKS_TEXT_BYTES];
    if (set == HVD_ALL_RANKS || teams_rank(teams, set) >= 0)
        return HVD_OK;
    int count = teams_ranks(teams, set, members, 64);
    if (count < 0)
        return error_set(context_error(), HVD_ERR_SET,
                         "%s: there is no process set %d; hvd_set_add makes one and tells its number", title,
                         set);
    return error_set(context_error(), HVD_ERR_SET,
                     "%s: rank %d is no member of process set %d (ranks %s%s); only members may call", title,
                     context->joined.job.rank, set,
                     ranks_text(members, count < 64 ? count : 64, text, sizeof(text)),
                     count > 64 ? "..." : "");
}

static int find_standing(const struct context *context, const struct ask *ask, struct standing *standing)
{
    const struct hvd_job *job = &context->joined.job;
    struct teams *teams = loop_teams(context->loop);
    hvd_set set = ask->options->set;
    char title[ASK_TITLE_BYTES];
    *standing = (struct standing){set, job->rank, job->size, -1};
    if (set != HVD_ALL_RANKS) {
        standing->rank = teams_rank(teams, set);
        standing->size = teams_size(teams, set);
        standing->root = teams_member(teams, set, ask->root);
    } else if (ask->root >= 0 && ask->root < job->size) {
        standing->root = ask->root;
    }
    return standing->rank >= 0 ? HVD_OK : operation_check_set(context, set, ask_title(ask, 0, title));
}

/* ---- Handing in --------------------------------------------------------------------------------- */

static int begin(struct context *context, struct request *request, const struct notice *notice)
{
    request->done = notice->done;
    request->arg = notice->arg;
    int rc = loop_submit(context->loop, request, true, notice->handlep, context_error());
    if (rc != HVD_OK)
        request_free(request);
    return rc;
}

int operation_check_outside(const struct context *context, const char *what)
{
    if (!loop_is_driving(context->loop))
        return HVD_OK;
    return error_set(context_error(), HVD_ERR_STATE,
                     "%s waits, and was called inside a callback, where nothing can make progress", what);
}

/* This thread drives its own operation, so nobody needs to be woken. */
int operation_run(struct context *context, struct request *request)
{
    hvd_handle handle = 0;
    int rc = operation_check_outside(context, "a call without _async");
    if (rc == HVD_OK)
        rc = loop_submit(context->loop, request, false, &handle, context_error());
    if (rc == HVD_OK)
        return loop_wait(context->loop, handle, context_error());
    request_free(request);
    return rc;
}

int operation_run_element(struct context *context, struct desc *desc, void *element)
{
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return HVD_ERR_NO_MEMORY;
    request->pieces[0].input = element;
    request->pieces[0].output = element;
    request->pieces[0].count = 1;
    request->pieces[0].bytes = (int64_t)dtype_bytes(request->desc->tensors[0].dtype);
    return operation_run(context, request);
}

int operation_perform(struct ask *ask, const struct notice *notice)
{
    struct context *context = context_now();
    struct standing standing;
    if (context == NULL)
        return HVD_ERR_STATE;
    if (ask->options == NULL)
        ask->options = &plain;
    int rc = find_standing(context, ask, &standing);
    if (rc != HVD_OK)
        return rc;
    struct request *request = recall(context, ask);
    if (request != NULL)
        rc = remake_request(context, ask, &standing, request);
    else
        rc = make_request(context, ask, &standing, &request);
    if (rc != HVD_OK)
        return rc;
    return notice == NULL ? operation_run(context, request) : begin(context, request, notice);
}

int operation_perform_own(enum desc_kind kind, hvd_set set, int *last_rankp, const struct notice *notice)
{
    struct context *context = context_now();
    if (context == NULL)
        return HVD_ERR_STATE;
    bool joins = kind == DESC_JOIN;
    int rc = operation_check_set(context, set, joins ? "join" : "barrier");
    if (rc != HVD_OK)
        return rc;
    struct desc *desc = operation_own(kind, set, joins ? DESC_JOIN_NAME : DESC_BARRIER_NAME);
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return HVD_ERR_NO_MEMORY;
    request->last_rankp = last_rankp;
    return notice == NULL ? operation_run(context, request) : begin(context, request, notice);
}
