/* state_memory.h: the copies of a state's parts, which may be on this rank's GPU. */
#ifndef API_STATE_MEMORY_H
#define API_STATE_MEMORY_H

#include "api/context.h"
#include "api/states.h"

/* Find out which parts are on the GPU, in this epoch, which opens it anew. An error names the part. */
int state_memory_find(struct state *state, struct context *context, struct hvd_error *err);

/* As commits_save and commits_restore, after state_memory_find. */
int state_memory_save(struct state *state, struct context *context, struct hvd_error *err);
int state_memory_restore(const struct state *state, struct context *context, struct hvd_error *err);

/* Where a rank's broadcast of part [i] begins: at the part, or, if that is on the GPU, at a copy in the
 * memory of the next commit, which is made with [copies]. The broadcast goes through host memory, because
 * that is where it must end: a rank that has a commit keeps its part until the broadcast has succeeded. */
int state_memory_input(struct state *state, int i, bool copies, const void **inputp, struct hvd_error *err);

#endif
