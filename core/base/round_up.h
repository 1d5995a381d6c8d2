/* round_up.h: the next multiple of a size. Pure. */
#ifndef BASE_ROUND_UP_H
#define BASE_ROUND_UP_H

#include <stdint.h>

/* [bytes] >= 0, or [bytes] itself if it is a multiple of [unit]. */
static inline int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

#endif
