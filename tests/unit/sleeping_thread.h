/* sleeping_thread.h: wait until another thread of this process sleeps in a call. */
#ifndef TESTS_UNIT_SLEEPING_THREAD_H
#define TESTS_UNIT_SLEEPING_THREAD_H

#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

#define SLEEP_LIMIT_US INT64_C(10000000)

/* In the thread: say which one it is, before the call. */
static inline void thread_note(_Atomic int *threadp)
{
    atomic_store(threadp, (int)syscall(SYS_gettid));
}

/* Wait until the thread that is noted there sleeps; fails after ten seconds. */
static inline void thread_await_sleep(_Atomic int *threadp)
{
    int64_t until_us = clock_us() + SLEEP_LIMIT_US;
    char state = 'R', path[64];
    while (state != 'S' && clock_us() < until_us) {
        snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(threadp));
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue; /* it has noted nothing yet */
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = 'R';
        fclose(file);
    }
    ck_assert_int_eq(state, 'S');
}

#endif
