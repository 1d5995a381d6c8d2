/* scratch.c: make and remove the private temporary folder. */
#include "config.h"

#include "tools/scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#define OPEN_FOLDERS 16 /* that nftw may hold open */

int scratch_make(char *path, size_t path_bytes, struct hvd_error *err)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == 0)
        parent = "/tmp";
    int length = snprintf(path, path_bytes, "%s/hvdrun.XXXXXX", parent);
    if (length < 0 || (size_t)length >= path_bytes) {
        path[0] = 0;
        return error_set(err, HVD_ERR_INVALID, "TMPDIR is longer than %zu bytes",
                         path_bytes - sizeof("/hvdrun.XXXXXX"));
    }
    if (mkdtemp(path) == NULL) {
        path[0] = 0;
        return error_set_errno(err, "cannot make a temporary folder in %.200s (TMPDIR chooses where)",
                               parent);
    }
    return HVD_OK;
}

void scratch_make_shared(char *path, size_t path_bytes)
{
    snprintf(path, path_bytes, "/dev/shm/hvdrun.XXXXXX");
    if (mkdtemp(path) == NULL)
        path[0] = 0;
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
