/* shared_file.c: files without a name that the ranks of a node map. Their size cannot change. */
#include "config.h"
#include "node/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Not executable, where the kernel has a flag for that: some sites demand it. */
static int make_file(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

/* A file larger than the limit raises SIGXFSZ before the call can fail, so look at the limit first. */
static int check_limit(size_t bytes, struct hvd_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_SYSTEM,
        "the ranks of this node share %zu bytes, more than a file may have here (%llu bytes); raise "
        "`ulimit -f`",
        bytes, (unsigned long long)limit.rlim_cur);
}

int shared_file_create(const char *name, size_t bytes, int *fdp, struct hvd_error *err)
{
    int status = check_limit(bytes, err);
    if (status != HVD_OK)
        return status;
    int fd = make_file(name);
    if (fd < 0)
        return error_set_errno(err, "cannot make memory that the ranks of this node share (memfd_create)");
    if (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) != 0) {
        status =
            error_set_errno(err, "cannot size and seal %zu bytes that the ranks of this node share", bytes);
        close(fd);
        return status;
    }
    *fdp = fd;
    return HVD_OK;
}

int shared_file_size(int fd, int64_t *bytesp, struct hvd_error *err)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &file) != 0)
        return error_set_errno(err, "cannot look at the memory that this node's first rank made");
    if ((seals & SIZE_SEALS) != SIZE_SEALS)
        return error_set(
            err, HVD_ERR_SYSTEM,
            "the memory that this node's first rank made is not sealed (0x%x), so it could vanish",
            (unsigned)seals);
    *bytesp = file.st_size;
    return HVD_OK;
}
