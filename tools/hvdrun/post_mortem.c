/* post_mortem.c: reads the traces of a rank that has ended: its flight record, its error file, the control
 * group's count of processes that were killed for memory, and where cores go. */
#include "tools/hvdrun/post_mortem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/status.h"
#include "tools/hvdrun/error_file.h"
#include "trace/flight_memory.h"

#define MIB (1 << 20)

void post_mortem_begin(struct post_mortem *post_mortem, const char *folder, char *const *environment)
{
    snprintf(post_mortem->folder, sizeof(post_mortem->folder), "%s", folder);
    post_mortem->user_error_file = environment_value(environment, ERROR_FILE_VARIABLE) != NULL;
    memory_events_begin(&post_mortem->memory_events);
}

static void name_file(const struct post_mortem *post_mortem, const char *what, int rank, char *path,
                      size_t path_bytes)
{
    if (snprintf(path, path_bytes, "%s/%s.%d", post_mortem->folder, what, rank) >= (int)path_bytes)
        path[0] = 0;
}

void post_mortem_fill(const struct post_mortem *post_mortem, int rank,
                      struct post_mortem_variables *variables)
{
    char path[PATH_MAX];
    name_file(post_mortem, "flight", rank, path, sizeof(path));
    snprintf(variables->text[0], sizeof(variables->text[0]), "%s=%s", FLIGHT_MEMORY_VARIABLE, path);
    name_file(post_mortem, "error", rank, path, sizeof(path));
    snprintf(variables->text[1], sizeof(variables->text[1]), "%s=%s", ERROR_FILE_VARIABLE, path);
    variables->strings[0] = variables->text[0];
    variables->strings[1] = post_mortem->user_error_file ? NULL : variables->text[1];
    variables->strings[2] = NULL;
}

static struct flight *read_flight(const struct post_mortem *post_mortem, int rank)
{
    char path[PATH_MAX];
    name_file(post_mortem, "flight", rank, path, sizeof(path));
    return flight_memory_read(path);
}

void post_mortem_read_end(const struct post_mortem *post_mortem, int rank, struct verdict_end *end)
{
    struct flight_last last;
    struct flight *flight = read_flight(post_mortem, rank);
    end->stayed = flight != NULL && !atomic_load(&flight->left);
    end->lost[0] = 0;
    if (flight != NULL && flight_find_last(flight, &last) && (!last.done || last.status == HVD_ERR_RANK_LOST))
        snprintf(end->lost, sizeof(end->lost), "%s", last.title);
    free(flight);
}

static void describe_doing(struct flight *flight, char *text, size_t text_bytes)
{
    struct flight_last last;
    if (!flight_find_last(flight, &last))
        snprintf(text, text_bytes, "before its first operation");
    else if (!last.done)
        snprintf(text, text_bytes, last.waits ? "while waiting for %s" : "with %s in flight", last.title);
    else if (last.status == HVD_OK)
        snprintf(text, text_bytes, "after %s", last.title);
    else
        snprintf(text, text_bytes, "after %s failed: %s", last.title, status_text(last.status));
}

/* Where a rank crashed, by its own report. */
static void copy_crash(const struct flight *flight, char *crash, size_t crash_bytes)
{
    size_t count = atomic_load(&flight->crash_bytes);
    count = count < sizeof(flight->crash) ? count : sizeof(flight->crash);
    snprintf(crash, crash_bytes, "%.*s", (int)count, flight->crash);
    for (char *at = crash; *at != 0; at++)
        *at = (unsigned char)*at < ' ' ? '?' : *at;
}

static void describe_memory(const struct post_mortem *post_mortem, char *text, size_t text_bytes)
{
    int64_t limit = 0;
    if (!memory_events_killed(&post_mortem->memory_events, &limit))
        return;
    if (limit < 0)
        snprintf(text, text_bytes, "out of memory");
    else
        snprintf(text, text_bytes, "out of memory: limit %" PRId64 " MiB", limit / MIB);
}

static void describe_core(char *text, size_t text_bytes)
{
    char pattern[200];
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, pattern, sizeof(pattern) - 1);
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return;
    pattern[length] = 0;
    pattern[strcspn(pattern, "\n")] = 0;
    if (pattern[0] == '|')
        snprintf(text, text_bytes, "given to %.*s", (int)strcspn(pattern + 1, " "), pattern + 1);
    else
        snprintf(text, text_bytes, "core_pattern is %s", pattern);
}

void post_mortem_read(const struct post_mortem *post_mortem, const struct verdict *verdict,
                      struct verdict_facts *facts, char *crash, size_t crash_bytes)
{
    char path[PATH_MAX];
    int rank = verdict_rank(verdict);
    crash[0] = 0;
    if (rank < 0)
        return;
    struct flight *flight = read_flight(post_mortem, rank);
    if (flight != NULL) {
        describe_doing(flight, facts->doing, sizeof(facts->doing));
        copy_crash(flight, crash, crash_bytes);
    }
    free(flight);
    name_file(post_mortem, "error", rank, path, sizeof(path));
    if (!post_mortem->user_error_file)
        error_file_read(path, facts->error, sizeof(facts->error));
    if (verdict_rank_was_killed(verdict))
        describe_memory(post_mortem, facts->memory, sizeof(facts->memory));
    if (verdict_rank_dumped_core(verdict))
        describe_core(facts->core, sizeof(facts->core));
}
