/* env.c: look up variables in this process's environment or in another one. */
#include "base/env.h"

#include <stdlib.h>
#include <string.h>

const char *environment_value(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    if (environment == NULL)
        return getenv(name);
    for (; *environment != NULL; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}
