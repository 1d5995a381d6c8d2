/* clock_offset.h: the difference between the clock of another rank and ours. Pure. */
#ifndef TRACE_CLOCK_OFFSET_H
#define TRACE_CLOCK_OFFSET_H

#include <stdint.h>

/* One reading of the other clock, taken between our question and its answer. */
struct clock_sample {
    int64_t sent_us;     /* by our clock */
    int64_t remote_us;   /* by the other */
    int64_t received_us; /* by our clock */
};

/* The other clock is ours + *offset_usp, to within *error_usp: the interval of offsets that all samples
 * allow. Where the clocks drift so much that there is none, the sample with the shortest round trip counts.
 * Returns 0; -1, with both unchanged, where every sample was answered before it was asked. */
int clock_offset_estimate(const struct clock_sample *samples, int count, int64_t *offset_usp,
                          int64_t *error_usp);

#endif
