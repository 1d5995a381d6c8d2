/* bar_run.h: run the commands that a bar is measured by. */
#ifndef TOOLS_HVDBENCH_BARS_BAR_RUN_H
#define TOOLS_HVDBENCH_BARS_BAR_RUN_H

#include "tools/hvdbench/bars/bar.h"
#include "tools/hvdbench/bars/programs.h"
#include "tools/hvdbench/bars/spawn.h"

#define COMMAND_ARGUMENTS 24

/* The last word asks for JSON. */
struct command {
    const char *argv[COMMAND_ARGUMENTS]; /* into this object and [programs] */
    int count;
    char ranks[16], backends[64], arguments[256];
};

void command_describe(struct command *command, const struct programs *programs,
                      const struct bar_command *row);

/* As a user types it, for a table. */
void command_format(const struct command *command, char *text, size_t room);

/* Run it and read what it writes. HVD_ERR_UNSUPPORTED where it cannot be run here; any other error: it
 * failed. */
int command_run(const struct command *command, struct spawned *spawned, struct record *record,
                struct hvd_error *err);

/* All commands of a bar in turn, into [records], as many as bar_records says. */
int bar_run(const struct bar *bar, const struct programs *programs, struct spawned *spawned,
            struct record *records, struct hvd_error *err);

#endif
