/* rank_list.c: check lists of ranks, sort and search them, and write them as text. */
#include "base/rank_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many entries at the beginning of [ranks] are consecutive numbers. */
static int consecutive_count(const int *ranks, int count)
{
    int length = 1;
    while (length < count && ranks[length - 1] < INT32_MAX && ranks[length] == ranks[length - 1] + 1)
        length++;
    return length;
}

const char *rank_list_text(const int *ranks, int count, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count;) {
        char part[32];
        int length = consecutive_count(ranks + i, count - i);
        int part_bytes = snprintf(part, sizeof(part), "%s%d", i > 0 ? "," : "", ranks[i]);
        if (length > 1)
            part_bytes += snprintf(part + part_bytes, sizeof(part) - (size_t)part_bytes, "%c%d",
                                   length > 2 ? '-' : ',', ranks[i + length - 1]);
        size_t room = text_bytes - used - (i + length < count ? sizeof("...") : 1);
        if ((size_t)part_bytes > room) {
            snprintf(text + used, text_bytes - used, "...");
            break;
        }
        memcpy(text + used, part, (size_t)part_bytes + 1);
        used += (size_t)part_bytes;
        i += length;
    }
    return text;
}

static int compare_ranks(const void *a, const void *b)
{
    int left = *(const int *)a, right = *(const int *)b;
    return (left > right) - (left < right);
}

void rank_list_sort(int *ranks, int count)
{
    qsort(ranks, (size_t)count, sizeof(*ranks), compare_ranks);
}

bool rank_list_has(const int *ranks, int count, int rank)
{
    return bsearch(&rank, ranks, (size_t)count, sizeof(*ranks), compare_ranks) != NULL;
}

int rank_list_check(const struct hvd_ranks *list, int size, const char *what, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (list->count < 1)
        return error_set(err, HVD_ERR_INVALID,
                         "%s: the list of ranks has no elements; at least one is needed", what);
    if (list->ranks == NULL)
        return error_set(err, HVD_ERR_INVALID, "%s: the list of ranks is NULL, but has %d elements", what,
                         list->count);
    bool *seen = calloc((size_t)size, sizeof(*seen));
    if (seen == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "%s: no memory for a list of %d ranks", what, size);
    for (int i = 0; rc == HVD_OK && i < list->count; i++) {
        int rank = list->ranks[i];
        if (rank < 0 || rank >= size)
            rc = error_set(err, HVD_ERR_INVALID, "%s: ranks[%d] is %d; expected 0 to %d", what, i, rank,
                           size - 1);
        else if (seen[rank])
            rc = error_set(err, HVD_ERR_INVALID, "%s: rank %d is in the list twice; name each once", what,
                           rank);
        else
            seen[rank] = true;
    }
    free(seen);
    return rc;
}
