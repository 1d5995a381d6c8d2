/* process_sets.h: make a process set. */
#ifndef API_PROCESS_SETS_H
#define API_PROCESS_SETS_H

#include "api/context.h"

/* As hvd_set_add, by the only thread that does so; sentences begin with [what]. */
int process_sets_add(struct context *context, const struct hvd_ranks *list, const char *what, hvd_set *setp);

#endif
