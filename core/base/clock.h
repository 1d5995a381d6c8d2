/* clock.h: monotonic time, mostly in microseconds, when a wait is told again, and beats. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
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

/* A time or a duration of [us], which is not negative, as the kernel takes it. */
static inline struct timespec clock_timespec(int64_t us)
{
    return (struct timespec){.tv_sec = (time_t)(us / 1000000), .tv_nsec = us % 1000000 * 1000};
}

/* Milliseconds from now to [deadline_us], rounded up, for poll(); 0 if the deadline has passed. */
static inline int clock_ms_until(int64_t deadline_us)
{
    int64_t left_us = deadline_us - clock_us();
    int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

/* When a wait that goes on is told again: each time after it has lasted twice as long. Of one wait; zeroed
 * when it begins. */
struct repeat {
    int64_t told_us; /* how long it had lasted when it was told last; 0: it was not */
};

/* How long the wait lasts when it is due: [first_us] for the first time. */
static inline int64_t repeat_due_us(const struct repeat *repeat, int64_t first_us)
{
    return repeat->told_us == 0 ? first_us : 2 * repeat->told_us;
}

/* The wait has lasted for [waited_us]. Returns whether it is due, and is then told. */
static inline bool repeat_tell(struct repeat *repeat, int64_t first_us, int64_t waited_us)
{
    if (waited_us < repeat_due_us(repeat, first_us))
        return false;
    repeat->told_us = waited_us;
    return true;
}

/* How processes of an elastic job see that others run: by beats, which they send so often. The kernel of a
 * node whose processes are stopped, or wait for a dead disk, still acknowledges what is sent to them, so that
 * their connections look alive. Beats are counted, and not timed, as time passes too while the one that
 * counts is stopped. */
static inline int64_t beat_interval_us(int64_t lease_us)
{
    return lease_us / 2;
}

/* So many may stay unanswered. With the next one the other end counts as stopped, three leases after it was
 * heard. */
#define BEATS_UNANSWERED_MAX 5

#endif
