/* file.c: read a whole file that a user named. */
#include "topo/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"

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
    bytes = descriptors_read(fd, text, (size_t)status.st_size);
    if (bytes < 0)
        rc = error_set_errno(err, "%.200s: %s cannot be read", path, what);
done:
    descriptors_close(&fd);
    if (rc != HVD_OK) {
        free(text);
        return rc;
    }
    text[bytes] = 0;
    *textp = text;
    *bytesp = (size_t)bytes;
    return HVD_OK;
}
