/* state_disk.h: the commits of a state in the folder of --hvd-state-dir: all ranks agree on the one from
 * which they go on, and rank 0 hands new ones to the writer. */
#ifndef API_STATE_DISK_H
#define API_STATE_DISK_H

#include "api/states.h"

/* Is there such a folder, and does the state have parts, which its commits are written from? */
bool state_disk_is_used(const struct state *state);

/* If a rank has a commit of this state on disk, the newest one that is whole becomes the commit of the first
 * rank that has it; *foundp is set then. Collective; no rank has a commit yet. If there are files, but none
 * that can be used, that is an error on all ranks. */
int state_disk_load(struct state *state, bool *foundp);

/* All ranks have the newest commit: on rank 0, lend it to the writer. Then warn of what has gone wrong with
 * earlier ones. */
void state_disk_hand(struct state *state);

/* What hvd_state_read and hvd_state_write do, when there is a folder. */
int state_disk_read(struct state *state, const char *name, void **datap, int64_t *bytesp);
void state_disk_write(struct state *state, const char *name, const void *data, int64_t bytes);

/* Wait until the last commit is on disk, and end the writer, which the next commit starts again. */
void state_disk_finish(struct state *state);

/* The same, and free what the state has for the folder. */
void state_disk_close(struct state *state);

#endif
