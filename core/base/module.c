/* module.c: open the modules that need PMIx or MPI, which libhvd does not link. */
#include <config.h>
#include "base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/ulimit.h"

/* Find [file] in one of the [folders], separated by ':'. */
static bool find_file(const char *folders, const char *file, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    while (search_path_next(&folders, folder))
        if (snprintf(path, PATH_MAX, "%s/%s", folder, file) < PATH_MAX && access(path, F_OK) == 0)
            return true;
    return false;
}

/* The folders to search for modules: those of HVD_MODULE_PATH; otherwise those beside a libhvd that is not
 * installed, which libtool keeps in core/.libs; otherwise the folder in which they were installed. The text
 * is the caller's to free; NULL: no memory. */
static char *find_folders(void)
{
    Dl_info own;
    /* a set-uid program must not load modules that its caller names */
    const char *chosen = secure_getenv("HVD_MODULE_PATH");
    if (chosen != NULL && chosen[0] != 0)
        return strdup(chosen);
    /* this string is a part of the library or program that calls us */
    bool known = dladdr(PKGLIBDIR, &own) != 0 && own.dli_fname != NULL;
    const char *libs = known ? strstr(own.dli_fname, "/core/.libs/") : NULL;
    if (libs == NULL)
        return strdup(PKGLIBDIR);
    int top = (int)(libs - own.dli_fname);
    char *folders = NULL;
    int length =
        asprintf(&folders, "%.*s/pmix_shim/.libs:%.*s/core/.libs", top, own.dli_fname, top, own.dli_fname);
    return length < 0 ? NULL : folders;
}

/* dlopen says neither that memory is missing nor that it is limited. */
static void note_load_failure(const char *path, struct hvd_error *err)
{
    char hint[96] = "";
    unsigned long long limit_mib;
    const char *why = dlerror();
    if (ulimit_address_space(&limit_mib))
        snprintf(hint, sizeof(hint),
                 "; the limit of address space is %llu MiB, perhaps too little: raise `ulimit -v`",
                 limit_mib);
    error_set(err, HVD_ERR_SYSTEM, "%.256s cannot be loaded: %.300s%s", path,
              why != NULL ? why : "no reason given", hint);
}

void *module_open(const char *file, const char *symbol, void **modulep, struct hvd_error *err)
{
    char path[PATH_MAX];
    char *folders = find_folders();
    bool exists = folders != NULL && find_file(folders, file, path);
    if (folders == NULL)
        error_set(err, HVD_ERR_NO_MEMORY, "no memory to look for %s", file);
    else if (!exists)
        error_set(err, HVD_ERR_INVALID, "%s is not in %.400s", file, folders);
    free(folders);
    if (!exists)
        return NULL;
    /* never unloaded: the libraries that it uses leave threads and exit handlers */
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == NULL) {
        note_load_failure(path, err);
        return NULL;
    }
    void *found = symbol != NULL ? dlsym(module, symbol) : module;
    if (found == NULL) {
        error_set(err, HVD_ERR_SYSTEM, "%.256s is not of this hvd: it has no %s; install hvd anew", path,
                  symbol);
        dlclose(module);
        return NULL;
    }
    *modulep = module;
    return found;
}
