/* shared_file.c: files without a name that the ranks of a node map. Their size cannot change. */
#include "config.h"
#include "node/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/kernel.h"
#include "base/ulimit.h"

#define SIZE_SEALS    (F_SEAL_SHRINK | F_SEAL_GROW)
#define CONTENT_SEALS (SIZE_SEALS | F_SEAL_WRITE)

static int check_limit(size_t bytes, struct hvd_error *err)
{
    if (ulimit_allows_file((int64_t)bytes))
        return HVD_OK;
    return error_set_errno(err, "the ranks of this node share %zu bytes, more than a file may have", bytes);
}

int shared_file_create(const char *name, size_t bytes, int *fdp, struct hvd_error *err)
{
    int status = check_limit(bytes, err);
    if (status != HVD_OK)
        return status;
    int fd = kernel_memfd_create(name);
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

int shared_file_create_empty(const char *name, int *fdp, struct hvd_error *err)
{
    int fd = kernel_memfd_create(name);
    if (fd < 0)
        return error_set_errno(err, "cannot make memory that the ranks of this node share (memfd_create)");
    *fdp = fd;
    return HVD_OK;
}

int shared_file_fill(int fd, const void *bytes, size_t length, struct hvd_error *err)
{
    int status = check_limit(length, err);
    if (status == HVD_OK && !descriptors_write(fd, bytes, length))
        return error_set_errno(err, "cannot write %zu bytes for the ranks of this node", length);
    if (status == HVD_OK && fcntl(fd, F_ADD_SEALS, CONTENT_SEALS | F_SEAL_SEAL) != 0)
        status = error_set_errno(err, "cannot seal %zu bytes for the ranks of this node", length);
    return status;
}

/* Private, as kernels before 6.7 refuse a shared mapping of a file that nobody may write; the pages are the
 * file's all the same. */
int shared_file_map(int fd, const void **bytesp, size_t *lengthp, struct hvd_error *err)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &file) != 0)
        return error_set_errno(err, "cannot look at what this node's first rank wrote for its members");
    if ((seals & CONTENT_SEALS) != CONTENT_SEALS || file.st_size <= 0)
        return error_set(err, HVD_ERR_SYSTEM,
                         "what this node's first rank wrote for its members is not sealed (0x%x)",
                         (unsigned)seals);
    void *bytes = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return error_set_errno(err, "cannot map %lld bytes that the ranks of this node share",
                               (long long)file.st_size);
    *bytesp = bytes;
    *lengthp = (size_t)file.st_size;
    return HVD_OK;
}
