/* cache_line_latency.h: the latency between two cores, as the time that a cache line takes from one to the
 * other and back. It is measured because a virtual machine does not tell whether its cores share a cache. */
#ifndef TOOLS_HVDBENCH_CACHE_LINE_LATENCY_H
#define TOOLS_HVDBENCH_CACHE_LINE_LATENCY_H

/* Returns the median over some batches in ns. Takes some milliseconds, at most a fifth of a second. Returns
 * NAN if both are the same core, if this process may not run on both, or if they are busy. The calling thread
 * is not moved. */
double cache_line_round_trip_ns(int core, int other);

#endif
