/* bar_run.h: run the commands that a bar is measured by. */
#ifndef TOOLS_HVDBENCH_BARS_BAR_RUN_H
#define TOOLS_HVDBENCH_BARS_BAR_RUN_H

#include "tools/hvdbench/bars/bar.h"
#include "tools/hvdbench/bars/programs.h"
#include "tools/hvdbench/bars/spawn.h"

#define COMMAND_ARGUMENTS 24

/* A command with its arguments; the last is --json. */
struct command {
    const char *argv[COMMAND_ARGUMENTS]; /* pointers into this struct and into [programs] */
    int count;
    char ranks[16], backends[64], arguments[256];
};

void command_describe(struct command *command, const struct programs *programs,
                      const struct bar_command *row);

/* The command as a user would type it, for a table. */
void command_format(const struct command *command, char *text, size_t room);

/* Run the commands of a bar in turn, bar_turns times, and store a record of each in [records]. */
int bar_run(const struct bar *bar, const struct programs *programs, struct spawned *spawned,
            struct record *records, struct hvd_error *err);

#endif
