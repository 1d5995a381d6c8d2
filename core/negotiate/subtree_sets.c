/* subtree_sets.c: the process sets that have members in this rank's subtree. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* Where [set] stands, or would stand. */
static size_t index_of(const struct negotiate *negotiate, hvd_set set)
{
    size_t low = 0;
    size_t high = negotiate->subtree_set_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (negotiate->subtree_sets[middle]->set < set)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct subtree_set *subtree_set_find(const struct negotiate *negotiate, hvd_set set)
{
    size_t at = index_of(negotiate, set);
    if (at == negotiate->subtree_set_count || negotiate->subtree_sets[at]->set != set)
        return NULL;
    return negotiate->subtree_sets[at];
}

int subtree_set_add(struct negotiate *negotiate, hvd_set set, uint64_t member_parts, bool decides,
                    struct hvd_error *err)
{
    size_t parts = (size_t)negotiate->params.child_count + 1;
    if (!negotiate_grow(&negotiate->subtree_sets, &negotiate->subtree_set_capacity,
                        negotiate->subtree_set_count, sizeof(struct subtree_set *)))
        return negotiate_no_memory(err);
    struct subtree_set *subtree_set = calloc(1, sizeof(*subtree_set) + parts * sizeof(subtree_set->part[0]));
    if (subtree_set == NULL || !response_cache_init(&subtree_set->response_cache)) {
        free(subtree_set);
        return negotiate_no_memory(err);
    }
    subtree_set->set = set;
    subtree_set->member_parts = member_parts;
    subtree_set->decides = decides;
    subtree_set->deferred_tail = &subtree_set->deferred;
    negotiate->subtree_sets[negotiate->subtree_set_count++] = subtree_set;
    return HVD_OK;
}

void subtree_set_destroy(struct subtree_set *subtree_set)
{
    if (subtree_set == NULL)
        return;
    while (subtree_set->deferred != NULL) {
        struct deferred *deferred = subtree_set->deferred;
        subtree_set->deferred = deferred->next;
        desc_release(deferred->submission.desc);
        free(deferred);
    }
    stall_query_end(subtree_set);
    desc_release(subtree_set->join);
    response_cache_fini(&subtree_set->response_cache);
    free(subtree_set);
}

static void remove_from_list(struct ready_list *ready_list, const struct subtree_set *subtree_set)
{
    for (size_t i = 0; i < ready_list->count; i++) {
        if (ready_list->at[i].subtree_set == subtree_set)
            ready_list->at[i] = (struct ready_item){NULL, NULL};
    }
}

void subtree_set_remove(struct negotiate *negotiate, struct subtree_set *subtree_set)
{
    size_t at = index_of(negotiate, subtree_set->set);
    size_t kept = 0;
    remove_from_list(&negotiate->to_report, subtree_set);
    remove_from_list(&negotiate->to_decide, subtree_set);
    for (size_t i = 0; i < negotiate->retired_ids.count; i++) {
        if ((hvd_set)(negotiate->retired_ids.at[i] >> 32) != subtree_set->set)
            negotiate->retired_ids.at[kept++] = negotiate->retired_ids.at[i];
    }
    negotiate->retired_ids.count = kept;
    negotiate->subtree_set_count--;
    memmove(&negotiate->subtree_sets[at], &negotiate->subtree_sets[at + 1],
            (negotiate->subtree_set_count - at) * sizeof(negotiate->subtree_sets[0]));
    subtree_set_destroy(subtree_set);
}
