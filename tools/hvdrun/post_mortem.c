/* post_mortem.c: where the ranks of hvdrun leave their traces, and what the traces say. */
#include "tools/hvdrun/post_mortem.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "trace/flight_memory.h"
#include "verdict/error_file.h"

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

void post_mortem_forget(const struct post_mortem *post_mortem, int rank)
{
    char path[PATH_MAX];
    name_file(post_mortem, "flight", rank, path, sizeof(path));
    unlink(path);
    name_file(post_mortem, "error", rank, path, sizeof(path));
    unlink(path);
}

void post_mortem_tell_first(const struct post_mortem *post_mortem, int first, int size)
{
    char path[PATH_MAX];
    for (int rank = 0; first >= 0 && rank < size; rank++) {
        name_file(post_mortem, "flight", rank, path, sizeof(path));
        flight_memory_tell_verdict(path, first);
    }
}

static struct flight *read_flight(const struct post_mortem *post_mortem, int rank)
{
    char path[PATH_MAX];
    name_file(post_mortem, "flight", rank, path, sizeof(path));
    return flight_memory_read(path);
}

void post_mortem_read_end(const struct post_mortem *post_mortem, int rank, struct verdict_end *end)
{
    struct flight *flight = read_flight(post_mortem, rank);
    rank_traces_of_end(flight, end);
    free(flight);
}

void post_mortem_read(const struct post_mortem *post_mortem, int rank, int wait_status,
                      struct verdict_facts *facts, char crash[CRASH_TEXT_BYTES])
{
    char path[PATH_MAX];
    crash[0] = 0;
    if (rank < 0)
        return;
    struct flight *flight = read_flight(post_mortem, rank);
    rank_traces_of_flight(flight, facts, crash);
    free(flight);
    name_file(post_mortem, "error", rank, path, sizeof(path));
    if (!post_mortem->user_error_file)
        error_file_read_path(path, facts->error, sizeof(facts->error));
    rank_traces_of_system(wait_status, &post_mortem->memory_events, facts);
}
