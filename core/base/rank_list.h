/* rank_list.h: lists of ranks: checked, sorted, and in words. Pure. */
#ifndef BASE_RANK_LIST_H
#define BASE_RANK_LIST_H

#include <stddef.h>

#include "base/status.h"

#define RANK_LIST_TEXT_BYTES 128 /* fits a sentence twice */

/* "0-3,8", in the list's order, into [text], which is returned; ends in "..." where it was too long. */
const char *rank_list_text(const int *ranks, int count, char *text, size_t text_bytes);

/* Are [list] distinct ranks, at least one, from 0 to [size] - 1? Otherwise HVD_ERR_INVALID, with a sentence
 * that begins with [what], such as "hvd_set_add". */
int rank_list_check(const struct hvd_ranks *list, int size, const char *what, struct hvd_error *err);

/* Make them ascending. */
void rank_list_sort(int *ranks, int count);

#endif
