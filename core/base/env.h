/* env.h: variables of an environment that is not always that of this process. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

/* The value of a variable in [environment], "NAME=value" strings that end with NULL, or NULL where it is not
 * set. With NULL for [environment]: of this process. */
const char *environment_value(char *const *environment, const char *name);

#endif
