/* command.c: find the program that the ranks run, before anything is started. */
#include "tools/common/command.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOT_EXECUTABLE 126
#define NOT_FOUND      127

/* Returns 0, EISDIR, or the errno that says why it cannot be executed. */
static int why_not(const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return errno;
    if (S_ISDIR(info.st_mode))
        return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

/* Does it end as scripts of Python do, which torchrun starts by Python? */
static bool is_python(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".py") == 0;
}

static int check_path(const char *path, struct hvd_error *err)
{
    int why = why_not(path);
    if (why == 0)
        return 0;
    if (why == ENOENT || why == ENOTDIR) {
        error_set(err, HVD_ERR_INVALID, "%.300s: command not found", path);
        return NOT_FOUND;
    }
    if (why == EISDIR)
        error_set(err, HVD_ERR_INVALID, "%.300s is a folder; expected a program to start", path);
    else
        error_set(err, HVD_ERR_INVALID, "%.300s cannot be executed: %s; expected a program (%s%.300s%s)",
                  path, strerror(why), is_python(path) ? "python3 " : "", is_python(path) ? path : "chmod +x",
                  is_python(path) ? " starts it" : " makes a file one");
    return NOT_EXECUTABLE;
}

static int not_found(const char *name, struct hvd_error *err)
{
    char here[512];
    int length = snprintf(here, sizeof(here), "./%s", name);
    if (length > 0 && (size_t)length < sizeof(here) && why_not(here) == 0)
        error_set(err, HVD_ERR_INVALID,
                  "%.200s: command not found in PATH; the one in this folder is written ./%.200s", name,
                  name);
    else
        error_set(err, HVD_ERR_INVALID, "%.200s: command not found in PATH%s%.200s", name,
                  is_python(name) ? "; a script of Python is started by python3 " : "",
                  is_python(name) ? name : "");
    return NOT_FOUND;
}

int command_find(const char *name, const char *search, char *path, size_t path_bytes, struct hvd_error *err)
{
    bool denied = false;
    if (strchr(name, '/') != NULL) {
        if ((size_t)snprintf(path, path_bytes, "%s", name) >= path_bytes)
            path[0] = 0; /* no file has a name this long */
        return check_path(path[0] == 0 ? name : path, err);
    }
    for (const char *at = search == NULL ? "/bin:/usr/bin" : search;;) {
        int length = (int)strcspn(at, ":");
        int used =
            snprintf(path, path_bytes, "%.*s/%s", length == 0 ? 1 : length, length == 0 ? "." : at, name);
        if ((size_t)used < path_bytes) {
            int why = why_not(path);
            if (why == 0)
                return 0;
            /* a folder without search permission does not tell whether it has the file */
            denied = denied || (why == EACCES && access(path, F_OK) == 0);
        }
        if (at[length] == 0)
            break;
        at += length + 1;
    }
    if (!denied)
        return not_found(name, err);
    error_set(err, HVD_ERR_INVALID, "%.200s is in PATH but cannot be executed: Permission denied", name);
    return NOT_EXECUTABLE;
}
