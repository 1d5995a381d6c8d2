/* dumps.c: read flight records that trace/flight_file.c has written as text. */
#include "config.h"
#include "tools/hvdinfo/ps/dumps.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "tools/hvdinfo/ps/pace.h"
#include "trace/flight_file.h"

/* Of one folder. */
struct dumps {
    const char *folder;
    struct ranks *ranks;
    int64_t now_us;
    int64_t first_us; /* when the first record was written, by the clock of its machine */
    int64_t first_s;  /* likewise, since 1970 */
};

/* ---- A line of the table ------------------------------------------------------------------------- */

/* `allreduce "x"`, and what may follow the name. */
static void take_title(const char *title, struct flight_operation *operation)
{
    const char *name = strstr(title, " \"");
    const char *end = strrchr(title, '"');
    size_t kind = name != NULL ? (size_t)(name - title) : strcspn(title, ":\n");
    const char *more = strstr(end == NULL ? title : end, " and ");
    snprintf(operation->kind, sizeof(operation->kind), "%.*s", (int)kind, title);
    if (name != NULL && end > name + 1)
        snprintf(operation->name, sizeof(operation->name), "%.*s", (int)(end - name - 2), name + 2);
    if (more == NULL || sscanf(more, " and %9d more", &operation->tensors) != 1)
        operation->tensors = 0;
    operation->tensors++;
}

/* False where it is no line of the table. */
static bool take_line(const char *line, int64_t now_us, struct flight_operation *operation)
{
    char after[TRACE_STEP_COUNT - 1][16];
    int64_t ago_us = 0;
    int title = 0;
    *operation = (struct flight_operation){.serial = 0};
    int count = sscanf(
        line, "%18" SCNu64 " %*s %18" SCNd64 " %15s %15s %15s %15s %15s %9d %18" SCNd64 " %9" SCNu32 " %n",
        &operation->serial, &ago_us, after[0], after[1], after[2], after[3], after[4], &operation->set,
        &operation->bytes, &operation->agreed, &title);
    if (count != 10 || title == 0)
        return false;
    operation->submitted_us = now_us - ago_us;
    for (int i = 0; i < TRACE_STEP_COUNT - 1; i++) {
        if (sscanf(after[i], "%9" SCNu32, &operation->after_us[i]) != 1)
            continue;
        operation->after_us[i]++;
        operation->step = (enum trace_step)(i + 1);
    }
    take_title(line + title, operation);
    return true;
}

/* ---- A file -------------------------------------------------------------------------------------- */

static void note_reason(struct dumps *dumps, const char *reason, int64_t since_1970_s, int64_t clock)
{
    if (dumps->ranks->reason[0] != 0 &&
        (since_1970_s > dumps->first_s || (since_1970_s == dumps->first_s && clock >= dumps->first_us)))
        return;
    dumps->first_s = since_1970_s;
    dumps->first_us = clock;
    snprintf(dumps->ranks->reason, sizeof(dumps->ranks->reason), "%.*s", (int)strcspn(reason, "\n"), reason);
}

/* The three lines before the table. */
static bool take_head(struct dumps *dumps, FILE *file, struct rank *rank)
{
    char lines[3][1024];
    int64_t since_1970_s = 0, clock = 0;
    int reason = 0;
    for (int i = 0; i < 3; i++) {
        if (fgets(lines[i], sizeof(lines[i]), file) == NULL)
            return false;
    }
    if (sscanf(lines[0], "hvd: the last operations of rank %9d of %9d (%64[^)]), pid %9d", &rank->rank,
               &rank->size, rank->node, &rank->pid) != 4 ||
        sscanf(lines[1],
               "written at %18" SCNd64 " s after 1970, when this machine's clock said %18" SCNd64
               " us, because of: %n",
               &since_1970_s, &clock, &reason) != 2 ||
        sscanf(lines[2], "submitted until then: %18" SCNu64, &rank->submitted) != 1 || rank->rank < 0 ||
        rank->rank >= rank->size)
        return false;
    note_reason(dumps, lines[1] + reason, since_1970_s, clock);
    return true;
}

static int take_table(FILE *file, int64_t now_us, struct rank *rank)
{
    char line[FLIGHT_LINE_BYTES + 1];
    rank->operations = calloc(FLIGHT_SLOTS, sizeof(*rank->operations));
    if (rank->operations == NULL)
        return HVD_ERR_NO_MEMORY;
    while (rank->operation_count < FLIGHT_SLOTS && fgets(line, sizeof(line), file) != NULL)
        rank->operation_count += take_line(line, now_us, &rank->operations[rank->operation_count]);
    return HVD_OK;
}

/* It had joined, and whatever it had submitted, it waited for. */
static int take_file(struct dumps *dumps, FILE *file, const char *path, struct hvd_error *err)
{
    struct rank *rank = ranks_add(dumps->ranks);
    if (rank == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the records in %.200s", dumps->folder);
    if (!take_head(dumps, file, rank))
        return error_set(err, HVD_ERR_INVALID, "%.300s is no flight record of this version of hvd", path);
    snprintf(rank->key, sizeof(rank->key), "dump");
    snprintf(rank->job, sizeof(rank->job), "in %.60s", dumps->folder);
    rank->phase = FLIGHT_WORKS;
    rank->phase_us = dumps->now_us;
    rank->read_us = dumps->now_us;
    rank->waits = true;
    if (take_table(file, dumps->now_us, rank) != HVD_OK)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the records in %.200s", dumps->folder);
    if (rank->operation_count > 0)
        rank->phase_us = rank->operations[0].submitted_us;
    rank->pace = pace_of(rank, NULL);
    return HVD_OK;
}

static bool is_dump(const char *name)
{
    int rank = 0, length = 0;
    return sscanf(name, FLIGHT_FILE_NAME "%n", &rank, &length) == 1 && length > 0 && name[length] == 0;
}

static int read_file(struct dumps *dumps, const char *name, struct hvd_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dumps->folder, name);
    int fd = descriptors_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (file == NULL) {
        error_set_errno(err, "%.300s cannot be read", path);
        descriptors_close(&fd);
        return HVD_ERR_INVALID;
    }
    int rc = take_file(dumps, file, path, err);
    fclose(file);
    return rc;
}

int dumps_read(const char *folder, struct ranks *ranks, struct hvd_error *err)
{
    struct dumps dumps = {.folder = folder, .ranks = ranks, .now_us = clock_us()};
    int rc = HVD_OK;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return error_set_errno(err, "the folder %.200s cannot be read", folder);
    const struct dirent *entry = readdir(dir);
    for (; rc == HVD_OK && entry != NULL; entry = readdir(dir)) {
        if (is_dump(entry->d_name))
            rc = read_file(&dumps, entry->d_name, err);
    }
    closedir(dir);
    ranks->now_us = dumps.now_us;
    return rc;
}
