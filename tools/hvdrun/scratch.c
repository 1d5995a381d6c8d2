/* scratch.c: name, create and remove hvdrun's private temporary folders. */
#include "config.h"

#include "tools/hvdrun/scratch.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FOLDERS 16 /* that nftw may have open */

/* The name is random, so that nobody can guess it and create the folder first. If it exists nevertheless,
 * scratch_make fails. */
static int add_name(const char *parent, char *path, size_t path_bytes)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -1;
    int length = snprintf(path, path_bytes, "%s/hvdrun.%016" PRIx64, parent, random);
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

int scratch_make(const char *path)
{
    return path[0] == 0 ? 0 : mkdir(path, S_IRWXU);
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
