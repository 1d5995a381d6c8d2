/* process_stat.c: what /proc tells of a process. */
#include "config.h"
#include "base/descriptors.h"
#include "base/process_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/process_signal.h"

#define EXITING 0x4U /* PF_EXITING of Linux */

/* "/proc/1/stat" is "1 (name with any bytes) S 0 ...": the state and all other fields follow the last
 * parenthesis. */
static bool parse(const char *text, struct process_stat *stat)
{
    const char *after = strrchr(text, ')');
    int parent = 0;
    unsigned flags = 0;
    if (after == NULL ||
        sscanf(after + 1,
               " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %" SCNu64
               " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
               " %*s %*s %*s %*s %*s %*s %d",
               &stat->state, &parent, &flags, &stat->thread_count, &stat->start, &stat->wait_status) != 6)
        return false;
    stat->parent = (pid_t)parent;
    stat->exits = (flags & EXITING) != 0;
    return true;
}

bool process_stat_read(pid_t pid, struct process_stat *stat)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = 0;
    return parse(text, stat);
}

/* Is it a zombie, with no thread left that runs? */
static bool is_zombie(const struct process_stat *stat)
{
    return (stat->state == 'Z' || stat->state == 'X') && stat->thread_count <= 1;
}

bool process_has_ended(pid_t pid, uint64_t start)
{
    struct process_stat stat, own;
    if (process_stat_read(pid, &stat))
        return stat.start != start || is_zombie(&stat);
    return process_stat_read(getpid(), &own);
}

/* The descriptor is opened before the look, and so stands for the process that was looked at, even if that
 * ends. */
int process_stat_signal(pid_t pid, uint64_t start, int signal_number)
{
    struct process_stat now;
    int pidfd = kernel_pidfd_open(pid);
    int rc = -1;
    if (process_stat_read(pid, &now) && now.start == start) {
        rc = pidfd >= 0 ? process_signal_by_pidfd(pidfd, signal_number) : -1;
        if (pidfd < 0 || (rc < 0 && errno != ESRCH)) /* an older kernel, or a container that refuses it */
            rc = process_signal(pid, signal_number);
    } else {
        errno = ESRCH;
    }
    int saved_errno = errno;
    descriptors_close(&pidfd);
    errno = saved_errno;
    return rc;
}

bool process_maps(pid_t pid, const char *name)
{
    char path[64];
    char line[1024];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = strstr(line, name) != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

#define ENVIRONMENT_BYTES ((size_t)4 << 20)

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
    char *text = fd < 0 ? NULL : malloc(ENVIRONMENT_BYTES);
    ssize_t length = text == NULL ? -1 : descriptors_read(fd, text, ENVIRONMENT_BYTES);
    char **entries = length < 0 ? NULL : list_entries(text, (size_t)length);
    descriptors_close(&fd);
    free(text);
    return entries;
}
