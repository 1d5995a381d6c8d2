/* env.h: look up variables in this process's environment or in another one. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

/* The value of a variable in [environment] ("NAME=value" strings, NULL-terminated), or NULL if it is not set.
 * [environment] NULL: that of this process. */
const char *environment_value(char *const *environment, const char *name);

#endif
