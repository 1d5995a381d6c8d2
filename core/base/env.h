/* env.h: look up variables in this process's environment or in another one. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <limits.h>
#include <stdbool.h>

/* The value of a variable in [environment] ("NAME=value" strings, NULL-terminated), or NULL if it is not set.
 * [environment] NULL: that of this process. */
const char *environment_value(char *const *environment, const char *name);

/* Copy the first folder of [*listp], a value such as that of PATH or NULL, and let [*listp] be the rest.
 * Empty entries are skipped, because they would mean the working directory. Returns false if none is left. */
bool search_path_next(const char **listp, char folder[PATH_MAX]);

#endif
