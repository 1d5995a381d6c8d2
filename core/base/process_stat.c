/* process_stat.c: what /proc tells of a process. */
#include "config.h"
#include "base/process_stat.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "/proc/1/stat" is "1 (name with any bytes) S 0 ...": the state and all other fields follow the last
 * parenthesis. */
static bool parse(const char *text, struct process_stat *stat)
{
    const char *after = strrchr(text, ')');
    int parent = 0;
    if (after == NULL ||
        sscanf(after + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %" SCNu64,
               &stat->state, &parent, &stat->thread_count, &stat->start) != 4)
        return false;
    stat->parent = (pid_t)parent;
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
