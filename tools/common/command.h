/* command.h: find the program that the ranks run. */
#ifndef TOOLS_COMMON_COMMAND_H
#define TOOLS_COMMON_COMMAND_H

#include <stddef.h>

#include "base/status.h"

/* Look for [name] as execvp does, in [search] (PATH; NULL: the usual folders), and write where it is into
 * [path]. Returns 0, or what a shell would exit with: 127 not found, 126 found but not executable. */
int command_find(const char *name, const char *search, char *path, size_t path_bytes, struct hvd_error *err);

#endif
