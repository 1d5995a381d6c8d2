/* process_sets.h: add a process set. */
#ifndef API_PROCESS_SETS_H
#define API_PROCESS_SETS_H

#include "api/context.h"

/* As hvd_set_add, but the caller ensures that only one thread does so at a time. Sentences begin with
 * [what]. */
int process_sets_add(struct context *context, const struct hvd_ranks *list, const char *what, hvd_set *setp);

#endif
