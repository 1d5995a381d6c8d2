/* flight_file.c: the file that the flight record is written to. */
#include "trace/flight_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"

int flight_file_open(struct flight_file *flight_file, const struct trace_params *params,
                     struct flight *flight, struct hvd_error *err)
{
    char inside[PATH_MAX]; /* with "/.": an error where it is not a folder */
    snprintf(flight_file->head, sizeof(flight_file->head), "rank %d of %d (%.255s), pid %ld", params->rank,
             params->size, params->host, (long)getpid());
    flight_file->flight = flight;
    if (params->dump_dir[0] == 0)
        return HVD_OK;
    snprintf(inside, sizeof(inside), "%s/.", params->dump_dir);
    bool made = mkdir(params->dump_dir, 0777) == 0 || errno == EEXIST;
    char *folder = made ? realpath(inside, NULL) : NULL; /* the program may change its working directory */
    if (folder == NULL || access(folder, W_OK | X_OK) < 0) {
        error_set_errno(err, "the folder %s of dump-dir cannot be used", params->dump_dir);
        free(folder);
        return HVD_ERR_INVALID;
    }
    int length = snprintf(flight_file->temporary_path, sizeof(flight_file->temporary_path),
                          "%s/" FLIGHT_FILE_NAME ".new", folder, params->rank);
    free(folder);
    if (length >= (int)sizeof(flight_file->temporary_path))
        return error_set(err, HVD_ERR_INVALID, "the folder name %.64s... of dump-dir is too long",
                         params->dump_dir);
    snprintf(flight_file->path, sizeof(flight_file->path), "%.*s", length - (int)sizeof(".new") + 1,
             flight_file->temporary_path);
    return HVD_OK;
}

static void put_head(struct flight_file *flight_file, struct strbuf *strbuf, const char *reason,
                     int64_t now_us)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    strbuf_add_text(strbuf, "hvd: the last operations of ");
    strbuf_add_text(strbuf, flight_file->head);
    strbuf_add_text(strbuf, "\nwritten at ");
    strbuf_add_number(strbuf, (int64_t)now.tv_sec);
    strbuf_add_text(strbuf, " s after 1970, when this machine's clock said ");
    strbuf_add_number(strbuf, now_us);
    strbuf_add_text(strbuf, " us, because of: ");
    strbuf_add_printable(strbuf, reason);
    strbuf_add_text(strbuf, "\nsubmitted until then: ");
    strbuf_add_number(strbuf, (int64_t)atomic_load(&flight_file->flight->last));
    strbuf_add_text(strbuf, "; times in us, those of steps since the submission\n\n");
}

int flight_file_write(struct flight_file *flight_file, const char *reason)
{
    int64_t now_us = clock_us();
    if (flight_file->path[0] == 0 || atomic_exchange(&flight_file->writing, true)) {
        errno = EBUSY;
        return -1;
    }
    struct strbuf strbuf = {flight_file->bytes, 0, sizeof(flight_file->bytes)};
    int fd = descriptors_open(flight_file->temporary_path,
                              O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -1 : 0;
    if (rc == 0) {
        put_head(flight_file, &strbuf, reason, now_us);
        rc = flight_write(flight_file->flight, &strbuf, fd, now_us);
        int saved_errno = errno;
        if (close(fd) < 0 && errno != EINTR && rc == 0) {
            saved_errno = errno;
            rc = -1;
        }
        errno = saved_errno;
    }
    if (rc == 0)
        rc = rename(flight_file->temporary_path, flight_file->path);
    if (rc < 0 && fd >= 0) {
        int saved_errno = errno;
        unlink(flight_file->temporary_path);
        errno = saved_errno;
    }
    atomic_store(&flight_file->writing, false);
    return rc;
}
