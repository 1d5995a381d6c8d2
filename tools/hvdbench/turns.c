/* turns.c: measure several ways of doing the same work in turn. */
#include "tools/hvdbench/turns.h"

#include <stdlib.h>

#define CHECKS 2

int64_t turns_repeats(int64_t bytes, int64_t turn_bytes, int64_t most)
{
    int64_t repeats = turn_bytes / bytes;
    if (repeats < 1)
        return 1;
    return repeats < most ? repeats : most;
}

static int call(int (*f)(void *arg, struct hvd_error *err), void *arg, struct hvd_error *err)
{
    return f != NULL ? f(arg, err) : HVD_OK;
}

static int start_together(struct hvd_error *err)
{
    int status = hvd_barrier(HVD_ALL_RANKS);
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_barrier", err);
}

/* Check the results before anything is timed: once when hvd sees the tensors for the first time, and once
 * when they are in its response cache, as in all later rounds. */
static int check_way(struct bench *bench, const struct way *way, struct hvd_error *err)
{
    int status = HVD_OK;
    for (int i = 0; i < CHECKS && status == HVD_OK; i++) {
        status = call(way->prepare, way->arg, err);
        if (status == HVD_OK)
            status = way->run(way->arg, err);
        if (status == HVD_OK)
            status = call(way->check, way->arg, err);
        if (status == HVD_OK)
            status = call(way->finish, way->arg, err);
        status = bench_agree(bench, status, err);
    }
    return status;
}

/* One turn. Stores [repeats] times in us. */
static int take_turn(struct way *way, int64_t repeats, double *samples, struct hvd_error *err)
{
    int status = call(way->prepare, way->arg, err);
    if (status == HVD_OK)
        status = start_together(err);
    way->cpu_us -= bench_cpu_us();
    int64_t begin_ns = clock_ns();
    for (int64_t i = 0; i < repeats && status == HVD_OK; i++) {
        status = way->run(way->arg, err);
        int64_t end_ns = clock_ns();
        samples[i] = (double)(end_ns - begin_ns) / 1000;
        begin_ns = end_ns;
    }
    way->cpu_us += bench_cpu_us();
    if (status == HVD_OK)
        status = call(way->finish, way->arg, err);
    return status;
}

/* [samples] are those of one way, in the order in which they were measured. */
static int compute_stats(struct way *way, double *samples, const struct turns *turns, struct hvd_error *err)
{
    int count = (int)(turns->rounds * turns->repeats);
    int status = turns->repeats == 1 ? bench_max(samples, count, err) : HVD_OK;
    if (status != HVD_OK)
        return status;
    struct stats us = stats_of(samples, count);
    double worst[] = {us.median, us.p99, us.least, us.most};
    status = bench_max(worst, 4, err);
    way->us = (struct stats){worst[0], worst[1], worst[2], worst[3]};
    way->cpu_us /= count;
    return status == HVD_OK ? bench_sum(&way->cpu_us, 1, err) : status;
}

void turns_bind(struct way *ways, const struct way *table, int count, void *arg)
{
    for (int i = 0; i < count; i++) {
        ways[i] = table[i];
        ways[i].arg = arg;
    }
}

int turns_measure(struct bench *bench, const struct turns *turns, struct way *ways, int count,
                  struct hvd_error *err)
{
    int status = HVD_OK;
    int64_t samples_each = 0;
    double *samples = NULL;
    if (!__builtin_mul_overflow(turns->rounds, turns->repeats, &samples_each) && samples_each <= INT32_MAX)
        samples = calloc((size_t)count * (size_t)samples_each, sizeof(samples[0]));
    if (samples == NULL)
        status =
            error_set(err, HVD_ERR_NO_MEMORY, "no memory for %lld rounds of %lld measurements; take fewer",
                      (long long)turns->rounds, (long long)turns->repeats);
    status = bench_agree(bench, status, err);
    for (int i = 0; i < count && status == HVD_OK; i++)
        status = check_way(bench, &ways[i], err);
    for (int64_t round = -turns->warmup; round < turns->rounds && status == HVD_OK; round++) {
        int64_t at = (round < 0 ? 0 : round) * turns->repeats;
        for (int i = 0; i < count && status == HVD_OK; i++) {
            ways[i].cpu_us = round <= 0 ? 0 : ways[i].cpu_us; /* what came before does not count */
            status = take_turn(&ways[i], turns->repeats, samples + i * samples_each + at, err);
        }
    }
    for (int i = 0; i < count && status == HVD_OK; i++)
        status = compute_stats(&ways[i], samples + i * samples_each, turns, err);
    free(samples);
    return status;
}
