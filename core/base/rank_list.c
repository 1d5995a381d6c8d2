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

/* Add the ranks of [run] to a text of *[used] bytes; where they do not fit, "...", and false. */
static bool add_run(char *text, size_t text_bytes, size_t *used, struct rank_run run, bool is_last)
{
    char part[32];
    int part_bytes = snprintf(part, sizeof(part), "%s%d", *used > 0 ? "," : "", run.first);
    if (run.last > run.first)
        part_bytes += snprintf(part + part_bytes, sizeof(part) - (size_t)part_bytes, "%c%d",
                               run.last - 1 > run.first ? '-' : ',', run.last);
    size_t room = text_bytes - *used - (is_last ? 1 : sizeof("..."));
    if ((size_t)part_bytes > room) {
        snprintf(text + *used, text_bytes - *used, "...");
        return false;
    }
    memcpy(text + *used, part, (size_t)part_bytes + 1);
    *used += (size_t)part_bytes;
    return true;
}

const char *rank_list_text(const int *ranks, int count, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0, length = 0; i < count; i += length) {
        length = consecutive_count(ranks + i, count - i);
        struct rank_run run = {ranks[i], ranks[i + length - 1]};
        if (!add_run(text, text_bytes, &used, run, i + length == count))
            break;
    }
    return text;
}

const char *rank_runs_text(const struct rank_run *runs, int count, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count && add_run(text, text_bytes, &used, runs[i], i + 1 == count);)
        i++;
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
