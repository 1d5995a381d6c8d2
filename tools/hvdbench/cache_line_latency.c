/* cache_line_latency.c: how near two cores are to each other. */
#include "config.h"

#include "tools/hvdbench/cache_line_latency.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "tools/hvdbench/stats.h"

#define BATCHES    9
#define TRIPS      500 /* of a batch */
#define LIMIT_US   200000
#define LOOKS      4096 /* between two looks at the clock, which take longer than a trip */
#define LINE_BYTES 128  /* of a cache line, or of two that are fetched together */

/* A number that grows from one side to the other: odd when it is to go back. */
struct court {
    _Alignas(LINE_BYTES) _Atomic int ball;
    _Alignas(LINE_BYTES) int64_t deadline_us;
    double batches_ns[BATCHES]; /* of one trip each */
    int done;
};

struct side {
    struct court *court;
    int core;
    void (*play)(struct court *court);
};

static bool await(struct court *court, int ball)
{
    for (int looks = 1; atomic_load_explicit(&court->ball, memory_order_acquire) != ball; looks++)
        if (looks % LOOKS == 0 && clock_us() > court->deadline_us)
            return false;
    return true;
}

static void hit(struct court *court, int ball)
{
    atomic_store_explicit(&court->ball, ball, memory_order_release);
}

static void play_back(struct court *court)
{
    for (int trip = 0; trip < (BATCHES + 1) * TRIPS && await(court, 2 * trip + 1); trip++)
        hit(court, 2 * trip + 2);
}

/* The batch before the first is that in which the other side comes. */
static void play(struct court *court)
{
    int trip = 0;
    for (int batch = -1; batch < BATCHES; batch++) {
        int64_t begin_us = clock_us();
        for (int i = 0; i < TRIPS; i++, trip++) {
            hit(court, 2 * trip + 1);
            if (!await(court, 2 * trip + 2))
                return;
        }
        if (batch >= 0)
            court->batches_ns[court->done++] = (double)(clock_us() - begin_us) * 1000 / TRIPS;
    }
}

static void *stand(void *arg)
{
    const struct side *side = arg;
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(side->core, &core);
    if (sched_setaffinity(0, sizeof(core), &core) == 0)
        side->play(side->court);
    return NULL;
}

double line_round_trip_ns(int core, int other)
{
    struct court court = {.ball = 0, .deadline_us = clock_us() + LIMIT_US};
    struct side sides[] = {{&court, core, play}, {&court, other, play_back}};
    pthread_t threads[2];
    int started = 0;
    if (core == other || core < 0 || other < 0 || core >= CPU_SETSIZE || other >= CPU_SETSIZE)
        return NAN;
    while (started < 2 && pthread_create(&threads[started], NULL, stand, &sides[started]) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return court.done > 0 ? stats_of(court.batches_ns, court.done).median : NAN;
}
