/* map_text.h: print a map as a table or as JSON. */
#ifndef TOOLS_HVDINFO_MAP_TEXT_H
#define TOOLS_HVDINFO_MAP_TEXT_H

#include <stdio.h>

#include "topo/plan/plan.h"

/* Write "2 packages, 2 NUMA nodes, 16 L3 caches, 128 cores, ..." into [text]. Returns [text]. */
const char *machine_summary(const struct machine *machine, char *text, size_t text_bytes);

/* How much of [text] fits into a line of [width] characters, broken after a comma or blank if possible. */
int line_of(const char *text, int width);

/* Print the table and the plan's notes, [width] characters wide unless that is too narrow to read. */
void map_table(FILE *file, const struct machine *machine, const struct plan *plan, int width);

/* Print
 * [{"task":0,"cpus":"0-3,64-67","mems":"0","gpus":["0000:17:00.0"],"nics":["mlx5_0"],"threads":8,"reason":
 * "..."}, ...], one line per task. */
void map_json(FILE *file, const struct plan *plan);

#endif
