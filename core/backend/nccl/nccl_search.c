/* nccl_search.c: find NCCL's library: loaded by the process before, named by the user, or in a usual place.
 */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/nccl/nccl_calls.h"

/* never unloaded: the library leaves threads and exit handlers */
#define MODE (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/* Where pip puts NCCL, seen from the folder of torch's libraries. */
#define FROM_TORCH "../../nvidia/nccl/lib/" NCCL_LIBRARY

/* For dl_iterate_phdr: is this a libtorch with NCCL beside it? Then write the file into the path [arg]. */
static int find_beside(struct dl_phdr_info *info, size_t size, void *arg)
{
    char *path = arg;
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)size;
    if (slash == NULL || strncmp(slash + 1, "libtorch", strlen("libtorch")) != 0)
        return 0;
    int folder_length = (int)(slash + 1 - info->dlpi_name);
    int length = snprintf(path, PATH_MAX, "%.*s" FROM_TORCH, folder_length, info->dlpi_name);
    return length < PATH_MAX && access(path, R_OK) == 0;
}

/* Returns whether [file] is a library of this process other than [library], or none of this process. */
static bool is_other(void *library, const char *file)
{
    void *loaded = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (loaded != NULL)
        dlclose(loaded); /* drops only this reference */
    return loaded != library;
}

static void take_loaded(struct nccl *nccl, const char *named)
{
    nccl->library = dlopen(NCCL_LIBRARY, MODE | RTLD_NOLOAD);
    nccl->origin = "loaded by this process before";
    nccl->instead = nccl->library != NULL && named[0] != 0 && is_other(nccl->library, named);
}

static void take_usual(struct nccl *nccl)
{
    char path[PATH_MAX];
    nccl->library = dlopen(NCCL_LIBRARY, MODE);
    nccl->origin = "found by the loader";
    if (nccl->library == NULL && dl_iterate_phdr(find_beside, path) != 0) {
        nccl->library = dlopen(path, MODE);
        nccl->origin = "found beside torch";
    }
}

int nccl_search(struct nccl *nccl, const char *named, struct hvd_error *err)
{
    take_loaded(nccl, named);
    if (nccl->library == NULL && named[0] != 0) {
        nccl->library = dlopen(named, MODE);
        nccl->origin = "named by --hvd-nccl-library";
    } else if (nccl->library == NULL) {
        take_usual(nccl);
    }
    if (nccl->library != NULL)
        return HVD_OK;
    const char *why = dlerror();
    return error_set(err, HVD_ERR_UNSUPPORTED,
                     "NCCL cannot be loaded: %.300s; install it, or name it in --hvd-nccl-library",
                     why != NULL ? why : NCCL_LIBRARY);
}

const char *nccl_file(const struct nccl *nccl)
{
    struct link_map *map = NULL;
    bool known = dlinfo(nccl->library, RTLD_DI_LINKMAP, &map) == 0;
    return known ? map->l_name : NCCL_LIBRARY;
}

const char *nccl_origin(const struct nccl *nccl)
{
    return nccl->origin;
}

bool nccl_is_instead(const struct nccl *nccl)
{
    return nccl->instead;
}
