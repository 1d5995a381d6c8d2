/* cooldown.h: how long a host is left out after a rank on it has failed: no rank is started there meanwhile.
 * Does no I/O and reads no clock. */
#ifndef TOOLS_HVDRUN_COOLDOWN_H
#define TOOLS_HVDRUN_COOLDOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct cooldown_range {
    int64_t low_us, high_us; /* 0 both: hosts are not left out */
};

/* Of one host. A zeroed struct has had no failure. */
struct cooldown {
    int failures;     /* that it was left out for */
    int64_t time_us;  /* how long, the last time */
    int64_t until_us; /* 0: it is not left out */
};

/* "10s:5min". HVD_ERR_INVALID with a sentence; [where] is the option's name. */
int cooldown_parse(const char *text, const char *where, struct cooldown_range *range, struct hvd_error *err);

/* A rank on the host has failed: leave it out from [now_us] on, at first for the low end of [range], each
 * time for twice as long, at most for its high end. Nothing changes while it is left out: several failures at
 * once are one trouble. */
void cooldown_begin(struct cooldown *cooldown, const struct cooldown_range *range, int64_t now_us);

/* True once when the time is over; then the host is not left out any more. */
bool cooldown_ends(struct cooldown *cooldown, int64_t now_us);

#endif
