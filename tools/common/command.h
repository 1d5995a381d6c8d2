/* command.h: find the program that the ranks run. */
#ifndef TOOLS_COMMON_COMMAND_H
#define TOOLS_COMMON_COMMAND_H

#include <stddef.h>

#include "base/status.h"

/* Look for [name] as execvp does, in [search] (the value of PATH; NULL: the usual folders), and write its
 * path into [path]. Returns 0, or the exit status of a shell: 127 when it was not found, 126 when it was
 * found but cannot be executed. */
int command_find(const char *name, const char *search, char *path, size_t path_bytes, struct hvd_error *err);

#endif
