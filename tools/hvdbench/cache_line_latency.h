/* cache_line_latency.h: how near two cores are to each other: the time that a cache line takes from one to
 * the other and back. No file says whether a virtual machine's cores share a cache. */
#ifndef TOOLS_HVDBENCH_CACHE_LINE_LATENCY_H
#define TOOLS_HVDBENCH_CACHE_LINE_LATENCY_H

/* In ns, the median of some batches. Takes some milliseconds, and a fifth of a second at most. NAN where it
 * is the same core, where this process may not run on both, or where others keep them busy. The caller's own
 * thread stays where it is. */
double cache_line_round_trip_ns(int core, int other);

#endif
