/* cache_line_latency.c: measure the latency between two cores. */
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
#define TRIPS      500 /* round trips of a batch */
#define LIMIT_US   200000
#define SPINS      4096 /* spins between two reads of the clock, which takes longer than a round trip */
#define LINE_BYTES 128  /* of a cache line, or of two that the prefetcher fetches together */

/* A counter that the two threads increment in turn. Odd: it is the second thread's turn. */
struct pingpong {
    _Alignas(LINE_BYTES) _Atomic int token;
    _Alignas(LINE_BYTES) int64_t deadline_us;
    double batches_ns[BATCHES]; /* time of one round trip, by batch */
    int done;
};

struct pingpong_thread {
    struct pingpong *pingpong;
    int core;
    void (*play)(struct pingpong *pingpong);
};

static bool await_token(struct pingpong *pingpong, int token)
{
    for (int looks = 1; atomic_load_explicit(&pingpong->token, memory_order_acquire) != token; looks++)
        if (looks % SPINS == 0 && clock_us() > pingpong->deadline_us)
            return false;
    return true;
}

static void pass_token(struct pingpong *pingpong, int token)
{
    atomic_store_explicit(&pingpong->token, token, memory_order_release);
}

static void run_responder(struct pingpong *pingpong)
{
    for (int trip = 0; trip < (BATCHES + 1) * TRIPS && await_token(pingpong, 2 * trip + 1); trip++)
        pass_token(pingpong, 2 * trip + 2);
}

/* One extra batch before the first waits for the other thread. */
static void play(struct pingpong *pingpong)
{
    int trip = 0;
    for (int batch = -1; batch < BATCHES; batch++) {
        int64_t begin_us = clock_us();
        for (int i = 0; i < TRIPS; i++, trip++) {
            pass_token(pingpong, 2 * trip + 1);
            if (!await_token(pingpong, 2 * trip + 2))
                return;
        }
        if (batch >= 0)
            pingpong->batches_ns[pingpong->done++] = (double)(clock_us() - begin_us) * 1000 / TRIPS;
    }
}

static void *thread_main(void *arg)
{
    const struct pingpong_thread *side = arg;
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(side->core, &core);
    if (sched_setaffinity(0, sizeof(core), &core) == 0)
        side->play(side->pingpong);
    return NULL;
}

double cache_line_round_trip_ns(int core, int other)
{
    struct pingpong pingpong = {.token = 0, .deadline_us = clock_us() + LIMIT_US};
    struct pingpong_thread ends[] = {{&pingpong, core, play}, {&pingpong, other, run_responder}};
    pthread_t threads[2];
    int started = 0;
    if (core == other || core < 0 || other < 0 || core >= CPU_SETSIZE || other >= CPU_SETSIZE)
        return NAN;
    while (started < 2 && pthread_create(&threads[started], NULL, thread_main, &ends[started]) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return pingpong.done > 0 ? stats_of(pingpong.batches_ns, pingpong.done).median : NAN;
}
