/* facts.h: read where hvdrun runs: in which job, as whose task, and which launchers there are. */
#ifndef TOOLS_HVDRUN_LAUNCHER_FACTS_H
#define TOOLS_HVDRUN_LAUNCHER_FACTS_H

#include <stddef.h>

#include "tools/hvdrun/launcher/launcher.h"

/* Looks for programs in the PATH of [environment]; otherwise pure. The facts point into it. */
void launch_facts_read(struct launch_facts *facts, char *const *environment);

/* Run "[program] [option]" and keep the beginning of what it writes to its standard output and error in
 * [text]. Returns 0, or -1 if it could not be run or wrote nothing within ten seconds. */
int launch_facts_ask(const char *program, const char *option, char *text, size_t text_bytes);

#endif
