/* outer.c: find the environment in which the launcher of this process was started itself. */
#include "tools/hvdinfo/doctor/outer.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/env.h"
#include "base/process_stat.h"

#define ANCESTORS         16
#define ENVIRONMENT_BYTES (1 << 20)
#define VARIABLES         16384

/* Read what /proc tells of the environment of a process, or NULL. The pointers are followed by the text. */
static char **read_environment(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char **pointers = fd < 0 ? NULL : malloc((VARIABLES + 1) * sizeof(*pointers) + ENVIRONMENT_BYTES + 1);
    if (pointers == NULL) {
        descriptors_close(&fd);
        return NULL;
    }
    char *text = (char *)(pointers + VARIABLES + 1);
    ssize_t length = descriptors_read(fd, text, ENVIRONMENT_BYTES);
    close(fd);
    size_t used = length > 0 ? (size_t)length : 0;
    text[used] = 0;
    int count = 0;
    for (size_t at = 0; at < used && count < VARIABLES; at += strlen(text + at) + 1)
        pointers[count++] = text + at;
    pointers[count] = NULL;
    return pointers;
}

char **outer_environment(char *const *environment)
{
    const char *own = environment_value(environment, "PMIX_NAMESPACE");
    struct process_stat stat = {.parent = getppid()};
    for (int i = 0; i < ANCESTORS && stat.parent > 1; i++) {
        char **outer = read_environment(stat.parent);
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
