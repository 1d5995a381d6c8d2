/* gait.h: whether a member's walks through its chunks go in turn, block by block, or apart, each through as
 * much as it can: which of the two takes less depends on how the processor passes cache lines from core to
 * core, and on where the host has put the cores. So both are tried now and then; they go in turn unless apart
 * took clearly less. Pure.
 *
 * Each member goes by what it measured itself. All of them try the same at the same chunks, as what one does
 * costs the others time, too. */
#ifndef PLANE_GAIT_H
#define PLANE_GAIT_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct gait {
    bool apart;
    bool tried;                    /* the trial is over */
    int64_t spent_ns[2], bytes[2]; /* in turn and apart; each trial counts half as much as the next */
};

/* Is one of the two tried at [chunk]? */
bool gait_is_trial(uint64_t chunk);

bool gait_is_apart(const struct gait *gait, uint64_t chunk);

/* In a trial: so many bytes took so long. */
void gait_note(struct gait *gait, uint64_t chunk, int64_t spent_ns, int64_t bytes);

#endif
