/* memory_events.c: asks the memory controller of Linux control groups, version 2 or 1. */
#include "verdict/memory_events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"

#define UNLIMITED (INT64_C(1) << 62) /* version 1 says a number about this large */

/* Where the two versions keep what is asked. */
struct hierarchy {
    const char *root;
    const char *events; /* a file with a line "oom_kill N" */
    const char *limit;
};

static const struct hierarchy hierarchies[] = {
    {"/sys/fs/cgroup", "memory.events", "memory.max"},
    {"/sys/fs/cgroup/memory", "memory.oom_control", "memory.limit_in_bytes"}};

/* False where the file cannot be read. Longer text is cut. */
static bool read_text(const char *folder, const char *name, char *text, size_t text_bytes)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, text_bytes - 1);
    descriptors_close(&fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

static int64_t read_kills(const struct memory_events *memory_events)
{
    char text[1024];
    if (!read_text(memory_events->folder, hierarchies[memory_events->v1].events, text, sizeof(text)))
        return -1;
    const char *line = strstr(text, "oom_kill ");
    return line == NULL ? -1 : strtoll(line + strlen("oom_kill "), NULL, 10);
}

/* Is [list], such as "cpu,memory:", one with the controller of memory? Version 2 has no list. */
static bool has_memory(const char *list, bool v1)
{
    if (!v1)
        return list[0] == ':';
    const char *found = strstr(list, "memory");
    return found != NULL && found < strchr(list, ':') && (found == list || found[-1] == ',') &&
           (found[6] == ',' || found[6] == ':');
}

/* The path of this process's control group, from a line such as "4:memory:/job_7/step_0". */
static bool find_path(bool v1, char *path, size_t path_bytes)
{
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (!found && file != NULL && getline(&line, &room, file) > 0) {
        const char *list = strchr(line, ':');
        if (list == NULL || strchr(list + 1, ':') == NULL || !has_memory(list + 1, v1))
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(path, path_bytes, "%s", strchr(list + 1, ':') + 1);
        found = true;
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

/* A container may see its own control group as the root. */
void memory_events_begin(struct memory_events *memory_events)
{
    char path[PATH_MAX / 2];
    for (int i = 0; i < 4; i++) {
        memory_events->v1 = i >= 2;
        if (!find_path(memory_events->v1, path, sizeof(path)))
            continue;
        snprintf(memory_events->folder, sizeof(memory_events->folder), "%s%s",
                 hierarchies[memory_events->v1].root, i % 2 == 0 ? path : "");
        memory_events->kills = read_kills(memory_events);
        if (memory_events->kills >= 0)
            return;
    }
    memory_events->folder[0] = 0;
}

bool memory_events_cut_at_step(char *path)
{
    char *step = strstr(path, "/step_");
    if (step == NULL)
        return false;
    step[1 + strcspn(step + 1, "/")] = 0;
    return true;
}

/* The group is new with the step, so its count began at 0. */
void memory_events_of_step(struct memory_events *memory_events)
{
    memory_events_begin(memory_events);
    if (!memory_events_cut_at_step(memory_events->folder))
        memory_events->folder[0] = 0;
    memory_events->kills = 0;
}

static int64_t read_limit(const char *folder, const char *name)
{
    char text[64];
    if (!read_text(folder, name, text, sizeof(text)) || strncmp(text, "max", 3) == 0)
        return UNLIMITED;
    return strtoll(text, NULL, 10);
}

bool memory_events_killed(const struct memory_events *memory_events, int64_t *limitp)
{
    const struct hierarchy *hierarchy = &hierarchies[memory_events->v1];
    char folder[PATH_MAX];
    int64_t lowest = UNLIMITED;
    if (memory_events->folder[0] == 0 || read_kills(memory_events) <= memory_events->kills)
        return false;
    snprintf(folder, sizeof(folder), "%s", memory_events->folder);
    while (strlen(folder) >= strlen(hierarchy->root)) {
        int64_t limit = read_limit(folder, hierarchy->limit);
        lowest = limit < lowest ? limit : lowest;
        char *slash = strrchr(folder, '/');
        *slash = 0;
    }
    *limitp = lowest < UNLIMITED ? lowest : -1;
    return true;
}
