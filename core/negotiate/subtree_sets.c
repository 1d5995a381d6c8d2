/* subtree_sets.c: the process sets that have members in this rank's subtree. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* The index at which [set] is, or would be. */
static size_t index_of(const struct subtree_sets *sets, hvd_set set)
{
    size_t low = 0;
    size_t high = sets->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sets->at[middle]->set < set)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct subtree_set *subtree_set_find(const struct subtree_sets *sets, hvd_set set)
{
    size_t at = index_of(sets, set);
    if (at == sets->count || sets->at[at]->set != set)
        return NULL;
    return sets->at[at];
}

int subtree_set_add(struct subtree_sets *sets, hvd_set set, uint64_t member_parts, bool decides,
                    struct hvd_error *err)
{
    size_t parts = sets->part_count;
    if (!negotiate_grow(&sets->at, &sets->capacity, sets->count, sizeof(struct subtree_set *)))
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
    sets->at[sets->count++] = subtree_set;
    return HVD_OK;
}

void stall_query_end(struct subtree_set *subtree_set)
{
    if (subtree_set->stall_query == NULL)
        return;
    desc_release(subtree_set->stall_query->desc);
    free(subtree_set->stall_query);
    subtree_set->stall_query = NULL;
}

static void subtree_set_destroy(struct subtree_set *subtree_set)
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

void subtree_set_remove(struct subtree_sets *sets, struct subtree_set *subtree_set)
{
    size_t at = index_of(sets, subtree_set->set);
    sets->count--;
    memmove(&sets->at[at], &sets->at[at + 1], (sets->count - at) * sizeof(sets->at[0]));
    subtree_set_destroy(subtree_set);
}

void subtree_sets_fini(struct subtree_sets *sets)
{
    for (size_t i = 0; i < sets->count; i++)
        subtree_set_destroy(sets->at[i]);
    free(sets->at);
}
