/* outer.c: find the environment in which the launcher of this process was started itself. */
#include "tools/hvdinfo/doctor/outer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/process_stat.h"

#define ANCESTORS 16

char **outer_environment(char *const *environment)
{
    const char *own = environment_value(environment, "PMIX_NAMESPACE");
    struct process_stat stat = {.parent = getppid()};
    for (int i = 0; i < ANCESTORS && stat.parent > 1; i++) {
        char **outer = process_environment(stat.parent);
        const char *namespace = outer == NULL ? NULL : environment_value(outer, "PMIX_NAMESPACE");
        bool same = own != NULL && namespace != NULL && strcmp(own, namespace) == 0;
        if (outer == NULL || !same)
            return outer;
        free(outer);
        if (!process_stat_read(stat.parent, &stat))
            return NULL;
    }
    return NULL;
}
