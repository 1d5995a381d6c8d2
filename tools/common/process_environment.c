/* process_environment.c: read the environment of another process in /proc. */
#include "tools/common/process_environment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptors.h"

#define MOST_BYTES ((size_t)4 << 20)

/* The strings in [text], whose pointers come first in the memory. */
static char **list_entries(const char *text, size_t length)
{
    size_t count = 1, used = 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == 0;
    char **entries = malloc((count + 1) * sizeof(*entries) + length + 1);
    if (entries == NULL)
        return NULL;
    char *copy = (char *)(entries + count + 1);
    memcpy(copy, text, length);
    copy[length] = 0;
    for (size_t at = 0; at < length; at += strlen(copy + at) + 1)
        entries[used++] = copy + at;
    entries[used] = NULL;
    return entries;
}

char **process_environment(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    int fd = descriptors_open(path, O_RDONLY | O_CLOEXEC, 0);
    char *text = fd < 0 ? NULL : malloc(MOST_BYTES);
    ssize_t length = text == NULL ? -1 : descriptors_read(fd, text, MOST_BYTES);
    char **entries = length < 0 ? NULL : list_entries(text, (size_t)length);
    descriptors_close(&fd);
    free(text);
    return entries;
}
