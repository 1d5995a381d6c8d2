/* report.h: what was measured, as a table for people or as JSON for programs. */
#ifndef TOOLS_HVDBENCH_REPORT_H
#define TOOLS_HVDBENCH_REPORT_H

#include "tools/hvdbench/bars/json.h"
#include "tools/hvdbench/ways.h"

/* "13.10 ms", "0.32 us" */
#define REPORT_TEXT_BYTES 32
const char *report_time(double us, char text[REPORT_TEXT_BYTES]);

/* "97.5 MiB", "4 B" */
const char *report_bytes(int64_t bytes, char text[REPORT_TEXT_BYTES]);

/* "2 ranks on 1 node" */
const char *report_ranks(const struct bench *bench, char text[2 * REPORT_TEXT_BYTES]);

/* A line of a table: how near the ranks' cores are to each other; nothing where that is not known. */
void report_cores(const struct bench *bench);

/* What makes a word plural: "" for one, otherwise "s". */
const char *report_s(int64_t count);

/* What every object of a job says: case, ranks, nodes, version, and how near the cores are. */
struct json report_open(const struct bench *bench);

/* The medians of all ways, hvd's p99 and what it takes by what others take; and which MPI it was, or why
 * there was none. */
void report_ways_fields(struct json *json, const struct bench *bench, const struct ways *ways);

/* All ways of one load: a table, or one object. [what] is "resnet50". Rank 0 writes. */
void report_ways(const struct bench *bench, const struct ways *ways, const char *what, int64_t rounds);

#endif
