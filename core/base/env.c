/* env.c: variables of an environment that is not always that of this process. */
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
