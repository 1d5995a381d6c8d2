/* metrics_file.c: writes metrics beside their file, and renames that. */
#include "config.h"

#include "tools/common/metrics_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"

/* Returns 0, or -1 with errno. */
static int write_whole(const char *path, metrics_write_f *write, const void *arg)
{
    int fd = descriptors_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        descriptors_close(&fd);
        return -1;
    }
    write(file, arg);
    int rc = fflush(file);
    return fclose(file) < 0 ? -1 : rc;
}

int metrics_file_write(const char *option, const char *path, metrics_write_f *write, const void *arg,
                       struct hvd_error *err)
{
    char aside[PATH_MAX];
    bool fits = snprintf(aside, sizeof(aside), "%s.%ld.tmp", path, (long)getpid()) < (int)sizeof(aside);
    errno = ENAMETOOLONG;
    if (fits && write_whole(aside, write, arg) == 0 && rename(aside, path) == 0)
        return HVD_OK;
    error_set(err, HVD_ERR_INVALID, "%s=%.200s: %s; expected a file in a folder where files can be written",
              option, path, strerror(errno));
    if (fits)
        unlink(aside);
    return HVD_ERR_INVALID;
}
