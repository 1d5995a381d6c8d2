/* stats.c: statistics of repeated measurements. */
#include "tools/hvdbench/stats.h"

#include <stdint.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

struct stats stats_of(double *samples, int count)
{
    int64_t rank = ((int64_t)count * 99 + 99) / 100;
    qsort(samples, (size_t)count, sizeof(samples[0]), compare);
    return (struct stats){
        .median = (samples[(count - 1) / 2] + samples[count / 2]) / 2,
        .p99 = samples[rank - 1],
        .least = samples[0],
        .most = samples[count - 1],
    };
}
