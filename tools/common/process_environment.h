/* process_environment.h: the environment of another process, as it was at its start. */
#ifndef TOOLS_COMMON_PROCESS_ENVIRONMENT_H
#define TOOLS_COMMON_PROCESS_ENVIRONMENT_H

#include <sys/types.h>

/* "NAME=value" strings up to a NULL, in memory that the caller frees by one free. NULL where this user may
 * not look at the process, it is gone, or there is no memory. Of a longer one the first 4 MiB are read. */
char **process_environment(pid_t pid);

#endif
