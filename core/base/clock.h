/* clock.h: monotonic time, mostly in microseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* For durations of less than a microsecond. */
static inline int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t clock_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

/* The time of the kernel's last tick, at most a few milliseconds ago. Much cheaper to read than clock_us. */
static inline int64_t clock_coarse_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC_COARSE);
}

/* Milliseconds from now to [deadline_us], rounded up, for poll(); 0 if the deadline has passed. */
static inline int clock_ms_until(int64_t deadline_us)
{
    int64_t left_us = deadline_us - clock_us();
    int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

#endif
