/* env.c: look up variables in this process's environment or in another one. */
#include "base/env.h"

#include <stdio.h>
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

bool search_path_next(const char **listp, char folder[PATH_MAX])
{
    const char *at = *listp == NULL ? "" : *listp;
    at += strspn(at, ":");
    int length = (int)strcspn(at, ":");
    snprintf(folder, PATH_MAX, "%.*s", length, at);
    *listp = at + length;
    return length > 0;
}
