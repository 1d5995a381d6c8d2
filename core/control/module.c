/* module.c: open what libhvd does not link: modules that need PMIx or MPI. */
#include "config.h"
#include "control/wireup.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Find [file] in one of the [folders], which have ':' between them. Empty folders are none: they would mean
 * the working directory. */
static bool find_file(const char *folders, const char *file, char path[PATH_MAX])
{
    for (const char *at = folders; *at != 0; at += strspn(at, ":")) {
        int length = (int)strcspn(at, ":");
        int used = length == 0 ? 0 : snprintf(path, PATH_MAX, "%.*s/%s", length, at, file);
        if (used > 0 && used < PATH_MAX && access(path, F_OK) == 0)
            return true;
        at += length;
    }
    return false;
}

void *module_open(const char *file, const char *symbol, void **modulep, struct hvd_error *err)
{
    char path[PATH_MAX];
    /* a set-uid program must not load what its caller names */
    const char *folders = secure_getenv("HVD_MODULE_PATH");
    bool chosen = folders != NULL && folders[0] != 0;
    if (!find_file(chosen ? folders : PKGLIBDIR, file, path)) {
        error_set(err, HVD_ERR_INVALID, "%s is not in %.256s%s", file, chosen ? folders : PKGLIBDIR,
                  chosen ? " (HVD_MODULE_PATH)" : "");
        return NULL;
    }
    /* never unloaded: libraries behind it leave threads and exit handlers */
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == NULL) {
        const char *why = dlerror();
        error_set(err, HVD_ERR_SYSTEM, "%.256s cannot be loaded: %s", path,
                  why != NULL ? why : "no reason given");
        return NULL;
    }
    void *found = dlsym(module, symbol);
    if (found == NULL) {
        error_set(err, HVD_ERR_SYSTEM, "%.256s is not of this hvd: it has no %s; install hvd anew", path,
                  symbol);
        dlclose(module);
        return NULL;
    }
    *modulep = module;
    return found;
}
