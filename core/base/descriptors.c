/* descriptors.c: how many descriptors this process may have open, the sentence when all of them are, and
 * calls that a signal does not cut short. */
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Enough for every job. Where the hard limit is far higher, programs that close every number up to their
 * limit would take seconds. */
#define MOST_DESCRIPTORS 1000000

void descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t wanted = limit.rlim_max < MOST_DESCRIPTORS ? limit.rlim_max : MOST_DESCRIPTORS;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void descriptors_close(int *fdp)
{
    if (*fdp >= 0)
        close(*fdp);
    *fdp = -1;
}

int descriptors_open(const char *path, int flags, mode_t mode)
{
    int fd = -1;
    do
        fd = open(path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* A socket, since eventfds and the like all have one inode. */
int descriptors_guard_open(struct descriptors_guard *guard, struct hvd_error *err)
{
    struct stat about;
    guard->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (guard->fd < 0 || fstat(guard->fd, &about) != 0)
        return error_set_errno(err, "cannot open a descriptor (socket)");
    guard->device = about.st_dev;
    guard->inode = about.st_ino;
    return HVD_OK;
}

bool descriptors_guard_holds(const struct descriptors_guard *guard)
{
    struct stat about;
    return fstat(guard->fd, &about) == 0 && about.st_dev == guard->device && about.st_ino == guard->inode;
}

void descriptors_guard_close(struct descriptors_guard *guard)
{
    if (guard->fd >= 0 && descriptors_guard_holds(guard))
        close(guard->fd);
    guard->fd = -1;
}

/* [offset] is -1 for a read where the descriptor stands. */
static ssize_t read_until_end(int fd, char *to, size_t most, off_t offset)
{
    size_t used = 0;
    while (used < most) {
        ssize_t got = offset < 0 ? read(fd, to + used, most - used)
                                 : pread(fd, to + used, most - used, offset + (off_t)used);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        used += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)used;
}

ssize_t descriptors_read(int fd, void *bytes, size_t most)
{
    return read_until_end(fd, bytes, most, -1);
}

ssize_t descriptors_read_at(int fd, void *bytes, size_t most, off_t offset)
{
    return read_until_end(fd, bytes, most, offset);
}

bool descriptors_write(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t written = write(fd, at, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        length -= (size_t)written;
    }
    return true;
}

void descriptors_ring(int fd)
{
    /* It fails only if the counter is full; then the descriptor is readable already. */
    const uint64_t one = 1;
    struct stat status;
    if (fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == 0) {
        ssize_t ignored = write(fd, &one, sizeof(one));
        (void)ignored;
    }
}

bool descriptors_are_used_up(int error)
{
    return error == EMFILE || error == ENFILE;
}

int descriptors_error(struct hvd_error *err, int error, const char *what, int more)
{
    char wanted[80] = "";
    struct rlimit limit = {0, 0};
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "%s: %s; see fs.file-max of sysctl(8) on this node", what,
                         strerror(error));
    if (more > 0)
        snprintf(wanted, sizeof(wanted), " to at least %llu",
                 (unsigned long long)limit.rlim_cur + (unsigned)more);
    return error_set(
        err, HVD_ERR_NO_MEMORY,
        "%s: all %llu descriptors that this process may have are open; raise `ulimit -n`%s, the hard "
        "limit too",
        what, (unsigned long long)limit.rlim_cur, wanted);
}

int descriptors_check(int count, const char *what, struct hvd_error *err)
{
    int opened = 0, rc = HVD_OK;
    int *fds = malloc((size_t)count * sizeof(*fds));
    if (fds == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "%s: no memory for a list of %d descriptors", what, count);
    while (rc == HVD_OK && opened < count) {
        fds[opened] = eventfd(0, EFD_CLOEXEC);
        if (fds[opened] >= 0)
            opened++;
        else if (descriptors_are_used_up(errno))
            rc = descriptors_error(err, errno, what, count - opened);
        else
            break; /* it is not the descriptors that are missing */
    }
    for (int i = 0; i < opened; i++)
        close(fds[i]);
    free(fds);
    return rc;
}
