/* rank_list.h: check lists of ranks, sort and search them, and write them as text. Pure. */
#ifndef BASE_RANK_LIST_H
#define BASE_RANK_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define RANK_LIST_TEXT_BYTES 128 /* short enough for two in one sentence */

/* Write the ranks as "0-3,8", in the list's order, into [text] and return [text]. It ends in "..." if it was
 * too long. */
const char *rank_list_text(const int *ranks, int count, char *text, size_t text_bytes);

/* Consecutive ranks. */
struct rank_run {
    int first, last;
};

/* Likewise of the ranks in [runs]. */
const char *rank_runs_text(const struct rank_run *runs, int count, char *text, size_t text_bytes);

/* Check that [list] has at least one rank, that its ranks are distinct, and that each is from 0 to [size] -
 * 1. Returns HVD_OK, or HVD_ERR_INVALID with a sentence that begins with [what], such as "hvd_set_add". */
int rank_list_check(const struct hvd_ranks *list, int size, const char *what, struct hvd_error *err);

/* Sort the ranks in ascending order. */
void rank_list_sort(int *ranks, int count);

/* Is [rank] among them? They are sorted. */
bool rank_list_has(const int *ranks, int count, int rank);

#endif
