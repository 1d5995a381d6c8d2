/* run.h: run the case that a command line chooses. */
#ifndef TOOLS_HVDBENCH_RUN_H
#define TOOLS_HVDBENCH_RUN_H

#include "tools/hvdbench/options.h"

/* Parse [argv] and do what it says. Returns the exit status of the program. */
int bench_run(const struct bench_program *program, char *const *argv);

#endif
