/* memory_budget.c: checks that a node's memory can hold the fusion buffers of its ranks. */
#include "bootstrap/memory_budget.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "options/parse.h"

#define GIB        (INT64_C(1) << 30)
#define PATH_BYTES 4096

/* Read a small file into [text], "" if it cannot be read. */
static void read_file(const char *path, char *text, size_t text_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : descriptors_read(fd, text, text_bytes - 1);
    descriptors_close(&fd);
    text[length > 0 ? length : 0] = 0;
}

/* Read the number in a limit file. "max", and anything that is not a number, means no limit. */
static int64_t read_limit(const char *folder, const char *file)
{
    char path[PATH_BYTES + 64], text[64];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    read_file(path, text, sizeof(text));
    text[strcspn(text, "\n")] = 0;
    return parse_count_or(text, INT64_MAX);
}

/* The lowest limit from [group] up to the mount. In a container the groups above may be unreadable. */
static int64_t lowest_limit(const char *mount, const char *group, const char *file)
{
    char folder[PATH_BYTES];
    int64_t lowest = INT64_MAX;
    size_t mount_length = strlen(mount);
    if (snprintf(folder, sizeof(folder), "%s%s", mount, group) >= (int)sizeof(folder))
        return INT64_MAX;
    for (;;) {
        int64_t bytes = read_limit(folder, file);
        lowest = bytes < lowest ? bytes : lowest;
        char *slash = strrchr(folder + mount_length, '/');
        if (slash == NULL)
            return lowest;
        *slash = 0;
    }
}

int64_t memory_budget_cgroup_bytes(const char *cgroup_file, const char *mount)
{
    char text[PATH_BYTES], memory_mount[PATH_BYTES / 4];
    int64_t lowest = INT64_MAX;
    char *rest = NULL;
    read_file(cgroup_file, text, sizeof(text));
    snprintf(memory_mount, sizeof(memory_mount), "%s/memory", mount);
    /* lines of "number:controllers:/group"; version 2 has the number 0 and no controllers */
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL)
            continue;
        *group++ = 0;
        int64_t bytes = INT64_MAX;
        if (strcmp(line, "0:") == 0)
            bytes = lowest_limit(mount, group, "memory.max");
        else if (strstr(controllers, "memory") != NULL)
            bytes = lowest_limit(memory_mount, group, "memory.limit_in_bytes");
        lowest = bytes < lowest ? bytes : lowest;
    }
    return lowest;
}

void memory_budget_read(struct memory_budget *budget)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0 || __builtin_mul_overflow(pages, page_bytes, &budget->node_bytes))
        budget->node_bytes = INT64_MAX;
    budget->cgroup_bytes = memory_budget_cgroup_bytes("/proc/self/cgroup", "/sys/fs/cgroup");
}

int memory_budget_check(const struct memory_budget *budget, int64_t fusion_bytes, int rank_count,
                        const char *host, struct hvd_error *err)
{
    char fusion[32], needed[32], present[32];
    bool confined = budget->cgroup_bytes < budget->node_bytes;
    int64_t bytes = confined ? budget->cgroup_bytes : budget->node_bytes;
    int64_t needed_bytes = INT64_MAX;
    bool overflow = __builtin_mul_overflow(fusion_bytes, rank_count, &needed_bytes);
    if (!overflow && needed_bytes <= bytes)
        return HVD_OK;
    format_size(fusion_bytes, fusion, sizeof(fusion));
    format_size(needed_bytes, needed, sizeof(needed));
    format_size(bytes >= GIB ? bytes / GIB * GIB : bytes, present, sizeof(present));
    return error_set(err, HVD_ERR_NO_MEMORY,
                     "fusion=%s for %d rank%s on %s needs %s, but %s %s, enough for %lld; lower --hvd-fusion",
                     fusion, rank_count, rank_count == 1 ? "" : "s", host, needed,
                     confined ? "the job's cgroup allows" : "the node has", present,
                     (long long)(bytes / fusion_bytes));
}
