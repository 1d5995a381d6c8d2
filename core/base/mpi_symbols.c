/* mpi_symbols.c: finds the MPI library that is in this process, whichever it is. */
#include "config.h"
#include "base/mpi_symbols.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

static bool resolve(void *handle, struct mpi_symbols *symbols)
{
    symbols->get_library_version = (int (*)(char *, int *))dlsym(handle, "MPI_Get_library_version");
    symbols->initialized = (int (*)(int *))dlsym(handle, "MPI_Initialized");
    symbols->finalized = (int (*)(int *))dlsym(handle, "MPI_Finalized");
    symbols->query_thread = (int (*)(int *))dlsym(handle, "MPI_Query_thread");
    return symbols->get_library_version != NULL && symbols->initialized != NULL &&
           symbols->finalized != NULL && symbols->query_thread != NULL;
}

/* Resolve them in a loaded object whose name begins with "libmpi". RTLD_NOLOAD opens only what is loaded
 * already. */
static int resolve_in_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;
    if (strncmp(file, "libmpi", 6) != 0)
        return 0;
    void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return 0;
    bool found = resolve(handle, arg);
    dlclose(handle); /* drops only this reference */
    return found ? 1 : 0;
}

/* If the program is linked with MPI the symbols are visible. If a module has loaded MPI, such as mpi4py, they
 * are not, and the loaded objects are searched. */
bool mpi_symbols_find(struct mpi_symbols *symbols)
{
    return resolve(RTLD_DEFAULT, symbols) || dl_iterate_phdr(resolve_in_object, symbols) != 0;
}
