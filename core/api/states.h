/* states.h: the elastic states of this process, by their handles. */
#ifndef API_STATES_H
#define API_STATES_H

#include <stdbool.h>

#include "elastic/commit_writer.h"
#include "elastic/commits.h"

/* How a state uses the folder of --hvd-state-dir. */
struct state_disk {
    struct commit_folder folder;  /* state is 0 before the first use, and path "" until it is known: it is
                                     found once, as programs may call chdir */
    struct commit_piece *pieces;  /* one for each part, or one */
    int last_slot;                /* of the commit that this process has read; -1: none */
    struct commit_writer *writer; /* NULL: this process has written none */
    int64_t handed;               /* the number of the last commit that the writer got */
    bool told;                    /* why commits cannot be handed to it */
};

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
    struct state_disk disk;
};

/* The state of [handle], or NULL, with a sentence in context_error that begins with [call]. */
struct state *states_find(hvd_state handle, const char *call);

/* Number the states that use the folder of --hvd-state-dir, from 1: in the order in which they do so first,
 * which is the same whenever the program runs. */
int states_count_on_disk(void);

/* Get the memory of the state's commits, so many, unless it has it. */
int state_reserve(struct state *state, int copies, struct hvd_error *err);

#endif
