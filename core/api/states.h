/* states.h: the elastic states of this process, by their handles. */
#ifndef API_STATES_H
#define API_STATES_H

#include <stdbool.h>

#include "elastic/commits.h"

/* What a hvd_state stands for. One thread at a time uses it. */
struct state {
    hvd_state handle;
    struct state *next;
    struct commits *commits;
    hvd_handle *broadcasts; /* one for each part, once memory is reserved */
    hvd_reset_f reset;      /* NULL: none */
    void *reset_arg;
    uint64_t synced; /* the start of this process (context->start) in which all ranks have the same state; 0:
                        none, or the ranks have parted since then */
    bool keeps;      /* the ranks part to let others in: the state stays as it is */
    bool runs;       /* in hvd_elastic_run */
    int losses;      /* epochs that ended by a loss since the last commit */
};

/* The state of [handle], or NULL, with a sentence in context_error that begins with [call]. */
struct state *states_find(hvd_state handle, const char *call);

/* Get the memory of the state's commits, unless it has it. */
int state_reserve(struct state *state, struct hvd_error *err);

#endif
