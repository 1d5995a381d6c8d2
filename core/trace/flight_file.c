/* flight_file.c: the file of the flight record. */
#include "trace/flight_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

int record_open(struct record *record, const struct trace_plan *plan, struct flight *flight,
                struct hvd_error *err)
{
    char inside[PATH_MAX]; /* so that a file of that name is told */
    char folder[PATH_MAX]; /* absolute: the program may change to another one */
    snprintf(record->head, sizeof(record->head), "rank %d of %d (%.255s), pid %ld", plan->rank, plan->size,
             plan->host, (long)getpid());
    record->flight = flight;
    if (plan->dump_dir[0] == 0)
        return HVD_OK;
    snprintf(inside, sizeof(inside), "%s/.", plan->dump_dir);
    if ((mkdir(plan->dump_dir, 0777) < 0 && errno != EEXIST) || realpath(inside, folder) == NULL ||
        access(folder, W_OK | X_OK) < 0) {
        error_set_errno(err, "the folder %s of dump-dir cannot be used", plan->dump_dir);
        return HVD_ERR_INVALID;
    }
    int length = snprintf(record->made, sizeof(record->made), "%s/hvd-flight.%d.txt.new", folder, plan->rank);
    if (length >= (int)sizeof(record->made))
        return error_set(err, HVD_ERR_INVALID, "the folder %.64s... of dump-dir has too long a name", folder);
    snprintf(record->path, sizeof(record->path), "%.*s", length - (int)sizeof(".new") + 1, record->made);
    return HVD_OK;
}

static void put_head(struct record *record, struct pad *pad, const char *reason, int64_t now_us)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pad_text(pad, "hvd: the last operations of ");
    pad_text(pad, record->head);
    pad_text(pad, "\nwritten at ");
    pad_number(pad, (int64_t)now.tv_sec);
    pad_text(pad, " s after 1970, when this machine's clock said ");
    pad_number(pad, now_us);
    pad_text(pad, " us, because of: ");
    pad_plain(pad, reason);
    pad_text(pad, "\nsubmitted until then: ");
    pad_number(pad, (int64_t)atomic_load(&record->flight->last));
    pad_text(pad, "; times in us, those of steps since the submission\n\n");
}

int record_write(struct record *record, const char *reason)
{
    int64_t now_us = clock_us();
    if (record->path[0] == 0 || atomic_exchange(&record->writing, true)) {
        errno = EBUSY;
        return -1;
    }
    struct pad pad = {record->bytes, 0, sizeof(record->bytes)};
    int fd = open(record->made, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -1 : 0;
    if (rc == 0) {
        put_head(record, &pad, reason, now_us);
        rc = flight_write(record->flight, &pad, fd, now_us);
        int saved_errno = errno;
        if (close(fd) < 0 && rc == 0) {
            saved_errno = errno;
            rc = -1;
        }
        errno = saved_errno;
    }
    if (rc == 0)
        rc = rename(record->made, record->path);
    if (rc < 0 && fd >= 0) {
        int saved_errno = errno;
        unlink(record->made);
        errno = saved_errno;
    }
    atomic_store(&record->writing, false);
    return rc;
}
