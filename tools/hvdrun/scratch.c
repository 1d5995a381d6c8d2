/* scratch.c: name, create and remove hvdrun's private temporary folders. */
#include "config.h"

#include "tools/hvdrun/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/hash.h"

#define OPEN_FOLDERS 16 /* that nftw may have open */

#define PREFIX_LENGTH 16 /* of "hvdrun.", the host, and a full stop */

/* Its second half is random, so that nobody can guess it and create the folder first; if it exists
 * nevertheless, scratch_make fails. The first half is the same on this host, for scratch_remove_abandoned:
 * where several hosts share the folder above, one may not see the locks of the others. */
static int add_name(const char *parent, char *path, size_t path_bytes)
{
    uint64_t random = 0;
    char host[HOST_NAME_MAX + 1] = "";
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -1;
    gethostname(host, sizeof(host) - 1);
    int length = snprintf(path, path_bytes, "%s/hvdrun.%08" PRIx32 ".%016" PRIx64, parent,
                          (uint32_t)hash_bytes(host, strlen(host)), random);
    return length > 0 && (size_t)length < path_bytes ? 0 : -1;
}

int scratch_make_name(char *path, size_t path_bytes, struct hvd_error *err)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == 0)
        parent = "/tmp";
    if (add_name(parent, path, path_bytes) == 0)
        return HVD_OK;
    path[0] = 0;
    return error_set(err, HVD_ERR_INVALID, "no temporary folder can be named in TMPDIR=%.200s", parent);
}

void scratch_name_shared(char *path, size_t path_bytes)
{
    if (access("/dev/shm", W_OK) < 0 || add_name("/dev/shm", path, path_bytes) < 0)
        path[0] = 0;
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Another hvdrun may have taken the folder for abandoned before it was opened or locked: then it is made
 * again. */
int scratch_make(const char *path)
{
    int fd = -1;
    while (path[0] != 0 && (fd < 0 || access(path, F_OK) < 0)) {
        descriptors_close(&fd);
        if (mkdir(path, S_IRWXU) < 0)
            return -1;
        fd = open_folder(path);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0) {
            int error = errno;
            rmdir(path);
            errno = error;
            return -1;
        }
        flock(fd, LOCK_SH); /* where locks do not work nobody gets the other one either */
    }
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    remove(path);
    return 0;
}

void scratch_remove(const char *path)
{
    if (path[0] != 0)
        nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

/* The lock is kept while it is removed, so that who makes it at this moment waits. */
static void remove_if_abandoned(const char *path)
{
    struct stat info;
    int fd = open_folder(path);
    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
        scratch_remove(path);
    close(fd);
}

void scratch_remove_abandoned(const char *path)
{
    char parent[PATH_MAX], found[PATH_MAX];
    const char *name = strrchr(path, '/');
    int length = name != NULL ? (int)(name - path) : 0;
    DIR *folder = NULL;
    if (length == 0 || snprintf(parent, sizeof(parent), "%.*s", length, path) >= (int)sizeof(parent))
        return;
    folder = opendir(parent);
    const struct dirent *entry = folder != NULL ? readdir(folder) : NULL;
    for (; entry != NULL; entry = readdir(folder)) {
        if (strncmp(entry->d_name, name + 1, PREFIX_LENGTH) == 0 &&
            snprintf(found, sizeof(found), "%s/%s", parent, entry->d_name) < (int)sizeof(found))
            remove_if_abandoned(found);
    }
    if (folder != NULL)
        closedir(folder);
}
