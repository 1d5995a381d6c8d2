/* part_list.h: the parts of a state as text, by which ranks find out which of them differ. */
#ifndef ELASTIC_PART_LIST_H
#define ELASTIC_PART_LIST_H

#include <stddef.h>

#include "elastic/commits.h"

/* One line for each part: its size and its name. The caller frees it; NULL if there is not enough memory. */
char *part_list_write(const struct commits *commits, size_t *lengthp);

/* [all] has the lists of [ranks] ranks, one behind the other; that of rank i has lengths[i] bytes. Write a
 * sentence about the first part in which a rank differs from rank 0, after "CALL: ", and return
 * HVD_ERR_MISMATCH; HVD_OK if none differs. */
int part_list_compare(const char *call, const char *all, const int64_t *lengths, int ranks,
                      struct hvd_error *err);

#endif
