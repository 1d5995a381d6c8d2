/* process_sets.c: the public calls for process sets. */
#include "api/process_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rank_list.h"
#include "api/operation.h"

/* ---- Adding a set ------------------------------------------------------------------------------- */

/* Describe the new set of [ranks], which are ascending. All ranks must give the same description. */
static struct desc *describe_set(const int *ranks, int count)
{
    char text[sizeof(((struct desc_tensor *)0)->name)];
    uint64_t hash = hash_bytes(ranks, (size_t)count * sizeof(*ranks));
    struct desc *desc = operation_internal_desc(DESC_SET_ADD, HVD_ALL_RANKS,
                                                rank_list_text(ranks, count, text, sizeof(text)));
    if (desc == NULL)
        return NULL;
    desc->tensors[0].ndim = 2;
    desc->tensors[0].shape[0] = count;
    desc->tensors[0].shape[1] = (int64_t)(hash >> 1);
    return desc;
}

static int create_set(struct context *context, const int *ranks, int count, hvd_set *setp)
{
    hvd_set set = -1;
    struct desc *desc = describe_set(ranks, count);
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return HVD_ERR_NO_MEMORY;
    request->ranks = ranks;
    request->setp = &set;
    int rc = operation_run(context, request);
    if (rc != HVD_OK)
        return rc;
    if (rank_list_has(ranks, count, context->bootstrap.job.rank))
        trace_joins_set(context->trace, set);
    *setp = set;
    return HVD_OK;
}

/* The set exists already, so nothing is made. A rank that gives another list must still learn that the lists
 * differ, so all ranks negotiate under the name under which they would make it. */
static int confirm_existing(struct context *context, hvd_set set, const char *what, hvd_set *setp)
{
    struct desc *desc = operation_internal_desc(DESC_BARRIER, HVD_ALL_RANKS, DESC_SET_ADD_NAME);
    if (desc != NULL)
        desc->root = set;
    struct request *request = operation_request(context, desc);
    if (request == NULL)
        return HVD_ERR_NO_MEMORY;
    int rc = operation_run(context, request);
    if (rc != HVD_OK)
        return rc;
    *setp = set;
    return error_set(context_error(), HVD_ERR_DUPLICATE, "%s: process set %d already has these ranks", what,
                     set);
}

int process_sets_add(struct context *context, const struct hvd_ranks *list, const char *what, hvd_set *setp)
{
    int rc = rank_list_check(list, context->bootstrap.job.size, what, context_error());
    if (rc != HVD_OK)
        return rc;
    size_t bytes = (size_t)list->count * sizeof(int);
    int *ranks = malloc(bytes);
    if (ranks == NULL)
        return error_set(context_error(), HVD_ERR_NO_MEMORY, "%s: no memory for a list of %d ranks", what,
                         list->count);
    memcpy(ranks, list->ranks, bytes);
    rank_list_sort(ranks, list->count);
    hvd_set set = set_registry_find(loop_set_registry(context->loop), ranks, list->count);
    rc =
        set >= 0 ? confirm_existing(context, set, what, setp) : create_set(context, ranks, list->count, setp);
    free(ranks);
    return rc;
}

enum hvd_status hvd_set_add(const int *ranks, int count, hvd_set *setp)
{
    const struct hvd_ranks list = {ranks, count};
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    if (setp == NULL)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_set_add: setp is NULL; pass the address of an hvd_set");
    int rc = loop_check_not_in_callback(context->loop, "hvd_set_add", context_error());
    if (rc != HVD_OK)
        return rc;
    pthread_mutex_lock(&context->sets_lock);
    rc = process_sets_add(context, &list, "hvd_set_add", setp);
    pthread_mutex_unlock(&context->sets_lock);
    return rc;
}

/* ---- Removing a set ----------------------------------------------------------------------------- */

static int remove_set(struct context *context, hvd_set set)
{
    if (set_registry_ranks(loop_set_registry(context->loop), set, NULL, 0) < 0)
        return error_set(context_error(), HVD_ERR_SET, "hvd_set_remove: there is no process set %d", set);
    struct desc *desc = operation_internal_desc(DESC_SET_REMOVE, HVD_ALL_RANKS, DESC_SET_REMOVE_NAME);
    if (desc != NULL)
        desc->root = set;
    struct request *request = operation_request(context, desc);
    return request == NULL ? HVD_ERR_NO_MEMORY : operation_run(context, request);
}

enum hvd_status hvd_set_remove(hvd_set set)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    if (set == HVD_ALL_RANKS)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_set_remove: HVD_ALL_RANKS (%d) cannot be removed; it ends with hvd_shutdown",
                         HVD_ALL_RANKS);
    int rc = loop_check_not_in_callback(context->loop, "hvd_set_remove", context_error());
    if (rc != HVD_OK)
        return rc;
    pthread_mutex_lock(&context->sets_lock);
    rc = remove_set(context, set);
    pthread_mutex_unlock(&context->sets_lock);
    return rc;
}

/* ---- Queries ------------------------------------------------------------------------------------ */

int hvd_set_rank(hvd_set set)
{
    struct context *context = context_get();
    return context == NULL ? -1 : set_registry_rank(loop_set_registry(context->loop), set);
}

int hvd_set_size(hvd_set set)
{
    struct context *context = context_get();
    return context == NULL ? -1 : set_registry_size(loop_set_registry(context->loop), set);
}

int hvd_set_ranks(hvd_set set, int *ranks, int capacity)
{
    struct context *context = context_get();
    return context == NULL ? -1
                           : set_registry_ranks(loop_set_registry(context->loop), set, ranks,
                                                ranks == NULL ? 0 : capacity);
}

int hvd_set_list(hvd_set *sets, int capacity)
{
    struct context *context = context_get();
    return context == NULL
               ? -1
               : set_registry_list(loop_set_registry(context->loop), sets, sets == NULL ? 0 : capacity);
}
