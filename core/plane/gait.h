/* gait.h: whether what a member gives others goes through its cache or past it. To write to lines that
 * another core's cache holds, and to read those that another's has changed, takes little where the cores
 * share a cache. Where they are far apart it takes more than to write to memory and read from there. So both
 * are tried now and then; it goes through the cache unless past it took clearly less. Pure.
 *
 * Each member goes by what it measured itself. All of them try the same at the same chunks, as what one does
 * costs the others time, too. */
#ifndef PLANE_GAIT_H
#define PLANE_GAIT_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct gait {
    bool past;
    bool over;                     /* the last trial, or nearly: past is tried last */
    int64_t spent_ns[2], bytes[2]; /* of that trial, through and past */
};

/* Is one of the two tried at [chunk]? */
bool gait_is_trial(uint64_t chunk);

/* Does what is given of [chunk] go past the cache? */
bool gait_is_past(const struct gait *gait, uint64_t chunk);

/* In a trial: so many bytes took so long. */
void gait_note(struct gait *gait, uint64_t chunk, int64_t spent_ns, int64_t bytes);

#endif
