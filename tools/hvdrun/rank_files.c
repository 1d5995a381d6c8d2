/* rank_files.c: write the files of --output-dir. */
#include "tools/hvdrun/rank_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int make_one(const char *path)
{
    return mkdir(path, 0777) < 0 && errno != EEXIST ? -1 : 0;
}

int rank_files_make_directory(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (make_one(part) < 0)
            return -1;
        *slash = '/';
    }
    return make_one(part);
}

int rank_file_open(const char *directory, int rank, const char *ending, bool again)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/rank.%d.%s", directory, rank, ending) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | (again ? O_APPEND : O_TRUNC) | O_CLOEXEC, 0666);
}
