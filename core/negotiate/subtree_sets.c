/* subtree_sets.c: the process sets that have members in this rank's subtree. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

/* Where [set] stands, or would stand. */
static size_t place_of(const struct negotiate *negotiate, hvd_set set)
{
    size_t low = 0;
    size_t high = negotiate->crew_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (negotiate->crews[middle]->set < set)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct crew *crew_find(const struct negotiate *negotiate, hvd_set set)
{
    size_t at = place_of(negotiate, set);
    if (at == negotiate->crew_count || negotiate->crews[at]->set != set)
        return NULL;
    return negotiate->crews[at];
}

int crew_add(struct negotiate *negotiate, hvd_set set, uint64_t full, bool decides, struct hvd_error *err)
{
    size_t parts = (size_t)negotiate->place.child_count + 1;
    if (!negotiate_grow(&negotiate->crews, &negotiate->crew_capacity, negotiate->crew_count,
                        sizeof(struct crew *)))
        return negotiate_no_memory(err);
    struct crew *crew = calloc(1, sizeof(*crew) + parts * sizeof(crew->part[0]));
    if (crew == NULL || !ledger_init(&crew->ledger)) {
        free(crew);
        return negotiate_no_memory(err);
    }
    crew->set = set;
    crew->full = full;
    crew->decides = decides;
    crew->later_tail = &crew->later;
    negotiate->crews[negotiate->crew_count++] = crew;
    return HVD_OK;
}

void crew_destroy(struct crew *crew)
{
    if (crew == NULL)
        return;
    while (crew->later != NULL) {
        struct later *later = crew->later;
        crew->later = later->next;
        desc_release(later->submission.desc);
        free(later);
    }
    inquiry_end(crew);
    desc_release(crew->join);
    ledger_fini(&crew->ledger);
    free(crew);
}

static void strike_out(struct agenda *agenda, const struct crew *crew)
{
    for (size_t i = 0; i < agenda->count; i++) {
        if (agenda->at[i].crew == crew)
            agenda->at[i] = (struct agenda_item){NULL, NULL};
    }
}

void crew_remove(struct negotiate *negotiate, struct crew *crew)
{
    size_t at = place_of(negotiate, crew->set);
    size_t kept = 0;
    strike_out(&negotiate->sayable, crew);
    strike_out(&negotiate->decidable, crew);
    for (size_t i = 0; i < negotiate->retired.count; i++) {
        if ((hvd_set)(negotiate->retired.at[i] >> 32) != crew->set)
            negotiate->retired.at[kept++] = negotiate->retired.at[i];
    }
    negotiate->retired.count = kept;
    negotiate->crew_count--;
    memmove(&negotiate->crews[at], &negotiate->crews[at + 1],
            (negotiate->crew_count - at) * sizeof(negotiate->crews[0]));
    crew_destroy(crew);
}
