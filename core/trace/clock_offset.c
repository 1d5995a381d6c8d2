/* clock_offset.c: the difference between the clock of another rank and ours. Pure. */
#include "trace/clock_offset.h"

#include <stdbool.h>

/* The possible offsets, both ends included. */
struct interval {
    int64_t low_us, high_us;
};

static bool interval_of(const struct clock_sample *sample, struct interval *interval)
{
    return !__builtin_sub_overflow(sample->remote_us, sample->received_us, &interval->low_us) &&
           !__builtin_sub_overflow(sample->remote_us, sample->sent_us, &interval->high_us) &&
           interval->low_us <= interval->high_us;
}

int clock_offset_estimate(const struct clock_sample *samples, int count, int64_t *offset_usp,
                          int64_t *error_usp)
{
    struct interval common = {INT64_MIN, INT64_MAX};
    struct interval narrowest = common;
    bool found = false;
    for (int i = 0; i < count; i++) {
        struct interval interval;
        if (!interval_of(&samples[i], &interval))
            continue;
        if (!found || (uint64_t)interval.high_us - (uint64_t)interval.low_us <
                          (uint64_t)narrowest.high_us - (uint64_t)narrowest.low_us)
            narrowest = interval;
        common.low_us = interval.low_us > common.low_us ? interval.low_us : common.low_us;
        common.high_us = interval.high_us < common.high_us ? interval.high_us : common.high_us;
        found = true;
    }
    if (!found)
        return -1;
    if (common.low_us > common.high_us)
        common = narrowest;
    uint64_t width_us = (uint64_t)common.high_us - (uint64_t)common.low_us;
    *offset_usp = common.low_us + (int64_t)(width_us / 2);
    *error_usp = (int64_t)(width_us - width_us / 2);
    return 0;
}
