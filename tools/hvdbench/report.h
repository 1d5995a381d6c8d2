/* report.h: print measurements as a table or as JSON. */
#ifndef TOOLS_HVDBENCH_REPORT_H
#define TOOLS_HVDBENCH_REPORT_H

#include "tools/common/json.h"
#include "tools/hvdbench/ways.h"

/* "13.10 ms", "0.32 us" */
#define REPORT_TEXT_BYTES 32
const char *report_time(double us, char text[REPORT_TEXT_BYTES]);

/* "97.5 MiB", "4 B" */
const char *report_bytes(int64_t bytes, char text[REPORT_TEXT_BYTES]);

/* "2 ranks on 1 node" */
const char *report_ranks(const struct bench *bench, char text[2 * REPORT_TEXT_BYTES]);

/* Print the latency between the ranks' cores, if it is known. */
void report_cores(const struct bench *bench);

/* The plural ending: "" for 1, otherwise "s". */
const char *report_s(int64_t count);

/* Begin a JSON object with the fields that all objects of a job have: case, ranks, nodes, version and the
 * latency between the cores. */
struct json report_open(const struct bench *bench);

/* Add the medians of all ways, hvd's p99, the ratios of hvd to the others, and MPI's version or why there is
 * no MPI. */
void report_ways_fields(struct json *json, const struct bench *bench, const struct ways *ways);

/* Rank 0 prints all ways of one load as a table or a JSON object. [what] is such as "resnet50". */
void report_ways(const struct bench *bench, const struct ways *ways, const char *what, int64_t rounds);

#endif
