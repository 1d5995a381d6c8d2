/* stats.h: statistics of repeated measurements. */
#ifndef TOOLS_HVDBENCH_STATS_H
#define TOOLS_HVDBENCH_STATS_H

struct stats {
    double median; /* of an even number of samples: the mean of the middle two */
    double p99;    /* by the nearest-rank method; of fewer than 100 samples it is the largest */
    double least, most;
};

/* The statistics of [count] > 0 samples, which are sorted in place. */
struct stats stats_of(double *samples, int count);

#endif
