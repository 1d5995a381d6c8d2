/* map_text.h: a map in words: a table for people, an array of JSON for programs. */
#ifndef TOOLS_HVDINFO_MAP_TEXT_H
#define TOOLS_HVDINFO_MAP_TEXT_H

#include <stdio.h>

#include "topo/plan/plan.h"

/* "2 packages, 2 NUMA nodes, 16 L3 caches, 128 cores, ..." into [text], returned. */
const char *machine_summary(const struct machine *machine, char *text, size_t text_bytes);

/* The table, [width] characters wide where that is enough to read, and the plan's notes. */
void map_table(FILE *file, const struct machine *machine, const struct plan *plan, int width);

/* [{"task":0,"cpus":"0-3,64-67","mems":"0","gpus":["0000:17:00.0"],"nics":["mlx5_0"],"threads":8,"reason":
 * "..."}, ...], a line a task. */
void map_json(FILE *file, const struct plan *plan);

#endif
