/* process.c: what /proc says of a process that may be a rank, and the copy of its flight record. */
#include "config.h"
#include "tools/hvdinfo/ps/process.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/descriptors.h"
#include "base/env.h"
#include "base/process_stat.h"
#include "options/parse.h"
#include "trace/flight_memory.h"

#define INHERITED "/proc/self/fd/"

static int open_part(pid_t pid, const char *part)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, part) >= (int)sizeof(path))
        return -1;
    return descriptors_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
}

/* Read the beginning of a text; "" where it cannot be read. */
static void read_part(pid_t pid, const char *part, char *text, size_t text_bytes)
{
    int fd = open_part(pid, part);
    ssize_t length = fd < 0 ? -1 : descriptors_read(fd, text, text_bytes - 1);
    descriptors_close(&fd);
    text[length < 0 ? 0 : length] = 0;
}

/* ---- Its environment ----------------------------------------------------------------------------- */

bool process_open(struct ps_process *process, pid_t pid)
{
    struct process_stat stat;
    *process = (struct ps_process){.pid = pid};
    if (!process_stat_read(pid, &stat))
        return false;
    process->parent = stat.parent;
    process->environment = process_environment(pid);
    return process->environment != NULL;
}

void process_close(struct ps_process *process)
{
    free(process->environment);
    *process = (struct ps_process){0};
}

const char *process_variable(const struct ps_process *process, const char *name)
{
    return environment_value(process->environment, name);
}

/* ---- Its flight record --------------------------------------------------------------------------- */

/* The descriptor that the launcher let it inherit; -1: none. */
static int inherited_number(const char *path)
{
    int64_t number = -1;
    const char *why = NULL;
    if (strncmp(path, INHERITED, strlen(INHERITED)) != 0 ||
        parse_count(path + strlen(INHERITED), &number, &why) != 0 || number > INT_MAX)
        return -1;
    return (int)number;
}

const char *process_mark(const struct ps_process *process, char mark[PROCESS_MARK_BYTES])
{
    const char *path = process_variable(process, FLIGHT_MEMORY_VARIABLE);
    char link[64];
    struct stat status;
    mark[0] = 0;
    int number = path == NULL ? -1 : inherited_number(path);
    if (number < 0) {
        snprintf(mark, PROCESS_MARK_BYTES, "%s", path == NULL ? "" : path);
        return mark;
    }
    snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)process->pid, number);
    if (stat(link, &status) == 0)
        snprintf(mark, PROCESS_MARK_BYTES, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    return mark;
}

/* Its number where it runs, which may be a container. */
static int own_number(pid_t pid)
{
    char text[4096];
    read_part(pid, "status", text, sizeof(text));
    const char *line = strstr(text, "\nNSpid:");
    size_t length = line == NULL ? 0 : strcspn(line + 1, "\n") + 1;
    while (length > 0 && isdigit((unsigned char)line[length - 1]))
        length--;
    char *end = line == NULL ? NULL : (char *)line + 1 + strcspn(line + 1, "\n");
    if (length == 0)
        return (int)pid;
    *end = 0;
    return (int)parse_count_or(line + length, (int64_t)pid);
}

/* How much the record says of now: that of a job that goes on, of one that starts, of one that was left. */
static int worth(const struct flight *flight)
{
    if (flight == NULL)
        return 0;
    return atomic_load(&flight->left) ? 1 : 1 + (int)atomic_load(&flight->phase);
}

/* Take the record in [fd], which is closed, if it is that of [pid] and says more than *bestp. */
static void take_better(int fd, pid_t pid, struct flight **bestp)
{
    struct flight *flight = fd < 0 ? NULL : flight_memory_read_live(fd);
    descriptors_close(&fd);
    if (flight != NULL && worth(flight) > worth(*bestp) && atomic_load(&flight->owner) == own_number(pid)) {
        struct flight *worse = *bestp;
        *bestp = flight;
        flight = worse;
    }
    free(flight);
}

static bool is_flight_memory(const char *link)
{
    static const char name[] = "/memfd:" FLIGHT_MEMORY_NAME;
    char target[sizeof(name) + 32];
    ssize_t length = readlink(link, target, sizeof(target));
    return length >= (ssize_t)sizeof(name) - 1 && memcmp(target, name, sizeof(name) - 1) == 0;
}

/* In its descriptors, those of the launcher's memory and of its own. Others are not opened: that could be an
 * act, as with a device. */
static void look_in_descriptors(pid_t pid, struct flight **bestp)
{
    char folder[64];
    char link[sizeof(folder) + 32];
    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(folder);
    const struct dirent *entry = dir == NULL ? NULL : readdir(dir);
    for (; entry != NULL; entry = readdir(dir)) {
        snprintf(link, sizeof(link), "%s/%.20s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && is_flight_memory(link))
            take_better(descriptors_open(link, O_RDONLY | O_CLOEXEC, 0), pid, bestp);
    }
    if (dir != NULL)
        closedir(dir);
}

/* In the launcher's file, as the process sees the file system. */
static void look_in_file(const struct ps_process *process, struct flight **bestp)
{
    const char *path = process_variable(process, FLIGHT_MEMORY_VARIABLE);
    char part[PATH_MAX];
    struct stat status;
    if (path == NULL || path[0] != '/' || inherited_number(path) >= 0)
        return;
    if (snprintf(part, sizeof(part), "/proc/%d/root%s", (int)process->pid, path) < (int)sizeof(part) &&
        lstat(part, &status) == 0 && S_ISREG(status.st_mode))
        take_better(descriptors_open(part, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0), process->pid,
                    bestp);
}

struct flight *process_read_flight(const struct ps_process *process)
{
    struct flight *flight = NULL;
    look_in_descriptors(process->pid, &flight);
    look_in_file(process, &flight);
    return flight;
}

/* ---- Its state ----------------------------------------------------------------------------------- */

static void copy_line(const char *from, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%.*s", (int)strcspn(from, "\n"), from);
    for (char *at = text; *at != 0; at++)
        *at = is_printable_byte((unsigned char)*at) ? *at : '?';
}

void process_describe(const struct ps_process *process, struct rank *rank)
{
    static const char label[] = "\nCpus_allowed_list:\t";
    char text[4096];
    struct process_stat stat;
    rank->pid = process->pid;
    rank->process = process_stat_read(process->pid, &stat) ? stat.state : 'X';
    read_part(process->pid, "status", text, sizeof(text));
    const char *cores = strstr(text, label);
    if (cores != NULL)
        copy_line(cores + strlen(label), rank->cores, sizeof(rank->cores));
    read_part(process->pid, "wchan", text, sizeof(text));
    if (strcmp(text, "0") != 0)
        copy_line(text, rank->sleeps_in, sizeof(rank->sleeps_in));
}

int64_t process_start_us(const struct ps_process *process)
{
    struct process_stat stat;
    int64_t now_us = clock_us();
    int64_t behind_us = clock_read_us(CLOCK_BOOTTIME) - now_us; /* the time of sleep */
    long ticks = sysconf(_SC_CLK_TCK);
    if (!process_stat_read(process->pid, &stat) || ticks <= 0 || stat.start > INT64_MAX / 2000000)
        return now_us;
    int64_t start_us = (int64_t)stat.start * 1000000 / ticks - behind_us;
    return start_us < now_us ? start_us : now_us;
}
