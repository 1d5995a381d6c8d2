/* file.c: read a whole file that a user named. */
#include "topo/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"

/* Read at most [size] bytes. Returns how many, or -1. */
static ssize_t read_all(int fd, char *text, size_t size)
{
    size_t used = 0;
    while (used < size) {
        ssize_t bytes = read(fd, text + used, size - used);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes < 0)
            return -1;
        if (bytes == 0)
            break;
        used += (size_t)bytes;
    }
    return (ssize_t)used;
}

int file_read(const char *path, const char *what, size_t max, char **textp, size_t *bytesp,
              struct hvd_error *err)
{
    struct stat status;
    char *text = NULL;
    ssize_t bytes = 0;
    int rc = HVD_OK;
    int fd = descriptors_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0 || fstat(fd, &status) < 0) {
        rc = error_set_errno(err, "%.200s: %s cannot be opened", path, what);
        goto done;
    }
    if (!S_ISREG(status.st_mode) || (size_t)status.st_size > max) {
        rc = error_set(err, HVD_ERR_INVALID, "%.200s: not %s; expected a file of at most %zu MiB", path, what,
                       max >> 20);
        goto done;
    }
    text = malloc((size_t)status.st_size + 1);
    if (text == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "%.200s: no memory for %lld bytes", path,
                       (long long)status.st_size);
        goto done;
    }
    bytes = read_all(fd, text, (size_t)status.st_size);
    if (bytes < 0)
        rc = error_set_errno(err, "%.200s: %s cannot be read", path, what);
done:
    if (fd >= 0)
        close(fd);
    if (rc != HVD_OK) {
        free(text);
        return rc;
    }
    text[bytes] = 0;
    *textp = text;
    *bytesp = (size_t)bytes;
    return HVD_OK;
}
