/* clock.h: monotonic time in microseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Milliseconds from now to [deadline_us], rounded up, for poll(); 0 when it is past. */
static inline int clock_ms_until(int64_t deadline_us)
{
    int64_t left_us = deadline_us - clock_us();
    int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

#endif
