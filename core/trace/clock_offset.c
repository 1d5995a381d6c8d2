/* clock_offset.c: how far the clock of another rank is from ours. Pure. */
#include "trace/clock_offset.h"

#include <stdbool.h>

/* Offsets that are possible, both included. */
struct window {
    int64_t low_us, high_us;
};

static bool window_of(const struct offset_sample *sample, struct window *window)
{
    return !__builtin_sub_overflow(sample->other_us, sample->answered_us, &window->low_us) &&
           !__builtin_sub_overflow(sample->other_us, sample->asked_us, &window->high_us) &&
           window->low_us <= window->high_us;
}

int offset_of_samples(const struct offset_sample *samples, int count, int64_t *offset_usp, int64_t *error_usp)
{
    struct window common = {INT64_MIN, INT64_MAX};
    struct window narrowest = common;
    bool found = false;
    for (int i = 0; i < count; i++) {
        struct window window;
        if (!window_of(&samples[i], &window))
            continue;
        if (!found || (uint64_t)window.high_us - (uint64_t)window.low_us <
                          (uint64_t)narrowest.high_us - (uint64_t)narrowest.low_us)
            narrowest = window;
        common.low_us = window.low_us > common.low_us ? window.low_us : common.low_us;
        common.high_us = window.high_us < common.high_us ? window.high_us : common.high_us;
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
