/* process_sets.c: the public calls for process sets. */
#include "api/process_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rank_list.h"
#include "api/operation.h"
#include "api/set_meeting.h"

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

/* The same for one that its members alone add. */
static struct desc *describe_set_of_members(const int *ranks, int count)
{
    char text[SET_MEETING_TEXT_BYTES];
    struct desc *desc = describe_set(ranks, count);
    if (desc == NULL)
        return NULL;
    desc->by_members = true;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "\001%s",
             set_meeting_text(ranks, count, text));
    return desc;
}

/* The operation [desc] adds the set of [ranks]. */
static int create_set(struct context *context, struct desc *desc, const int *ranks, int count, hvd_set *setp)
{
    hvd_set set = -1;
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

static int return_existing(hvd_set set, const char *what, hvd_set *setp)
{
    *setp = set;
    return error_set(context_error(), HVD_ERR_DUPLICATE, "%s: process set %d already has these ranks", what,
                     set);
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
    return rc == HVD_OK ? return_existing(set, what, setp) : rc;
}

/* Add the set of [ranks], which are ascending. */
typedef int add_set_f(struct context *context, const int *ranks, int count, const char *what, hvd_set *setp);

static int add_by_all(struct context *context, const int *ranks, int count, const char *what, hvd_set *setp)
{
    hvd_set set = set_registry_find(loop_set_registry(context->loop), ranks, count, false);
    return set >= 0 ? confirm_existing(context, set, what, setp)
                    : create_set(context, describe_set(ranks, count), ranks, count, setp);
}

static int add_by_members(struct context *context, const int *ranks, int count, const char *what,
                          hvd_set *setp)
{
    char text[SET_MEETING_TEXT_BYTES];
    hvd_set set = set_registry_find(loop_set_registry(context->loop), ranks, count, true);
    if (!rank_list_has(ranks, count, context->bootstrap.job.rank))
        return error_set(context_error(), HVD_ERR_INVALID,
                         "%s: rank %d is not one of the ranks %s; only these may call", what,
                         context->bootstrap.job.rank, set_meeting_text(ranks, count, text));
    int rc = set_meeting_hold(context, ranks, count, set, what);
    if (rc != HVD_OK)
        return rc;
    return set >= 0 ? return_existing(set, what, setp)
                    : create_set(context, describe_set_of_members(ranks, count), ranks, count, setp);
}

static int add_sorted(struct context *context, const struct hvd_ranks *list, const char *what,
                      add_set_f *add_set, hvd_set *setp)
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
    rc = add_set(context, ranks, list->count, what, setp);
    free(ranks);
    return rc;
}

int process_sets_add(struct context *context, const struct hvd_ranks *list, const char *what, hvd_set *setp)
{
    return add_sorted(context, list, what, add_by_all, setp);
}

static int add_in_turn(const struct hvd_ranks *list, const char *what, add_set_f *add_set, hvd_set *setp)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    if (setp == NULL)
        return error_set(context_error(), HVD_ERR_INVALID, "%s: setp is NULL; pass the address of an hvd_set",
                         what);
    int rc = loop_check_not_in_callback(context->loop, what, context_error());
    if (rc != HVD_OK)
        return rc;
    pthread_mutex_lock(&context->sets_lock);
    rc = add_sorted(context, list, what, add_set, setp);
    pthread_mutex_unlock(&context->sets_lock);
    return rc;
}

enum hvd_status hvd_set_add(const int *ranks, int count, hvd_set *setp)
{
    return add_in_turn(&(struct hvd_ranks){ranks, count}, "hvd_set_add", add_by_all, setp);
}

enum hvd_status hvd_set_add_by_members(const int *ranks, int count, hvd_set *setp)
{
    return add_in_turn(&(struct hvd_ranks){ranks, count}, "hvd_set_add_by_members", add_by_members, setp);
}

/* ---- Removing a set ----------------------------------------------------------------------------- */

static int remove_set(struct context *context, hvd_set set)
{
    struct set_registry *set_registry = loop_set_registry(context->loop);
    hvd_set deciding = set_registry_is_by_members(set_registry, set) ? set : HVD_ALL_RANKS;
    if (set_registry_ranks(set_registry, set, NULL, 0) < 0)
        return error_set(context_error(), HVD_ERR_SET, "hvd_set_remove: there is no process set %d", set);
    struct desc *desc = operation_internal_desc(DESC_SET_REMOVE, deciding, DESC_SET_REMOVE_NAME);
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
