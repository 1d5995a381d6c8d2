/* stats.h: what many measurements of one thing come to. Pure. */
#ifndef TOOLS_HVDBENCH_STATS_H
#define TOOLS_HVDBENCH_STATS_H

struct stats {
    double median; /* of an even number: the mean of the two in the middle */
    double p99; /* by nearest rank: the least that 99 of 100 do not exceed; of fewer than 100 the greatest */
    double least, most;
};

/* Of [count] > 0 samples, which it sorts. */
struct stats stats_of(double *samples, int count);

#endif
