/* clock_offset.h: how far the clock of another rank is from ours. Pure. */
#ifndef TRACE_CLOCK_OFFSET_H
#define TRACE_CLOCK_OFFSET_H

#include <stdint.h>

/* One look at the other's clock: it was read after we asked and before we had the answer. */
struct clock_sample {
    int64_t sent_us;     /* our clock */
    int64_t remote_us;   /* the other's */
    int64_t received_us; /* our clock */
};

/* The other's clock is ours + *offset_usp, to within *error_usp. 0, or -1 with both unchanged where no sample
 * makes sense (answered before asked). The narrowest window that all samples allow counts; clocks that
 * drifted apart so far that there is none get the narrowest sample. */
int clock_offset_estimate(const struct clock_sample *samples, int count, int64_t *offset_usp,
                          int64_t *error_usp);

#endif
