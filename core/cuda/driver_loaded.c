/* driver_loaded.c: does this process use CUDA? */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <stddef.h>

bool cuda_driver_loaded(const char *library)
{
    void *loaded = dlopen(library != NULL ? library : CUDA_DRIVER_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    if (loaded == NULL)
        return false;
    dlclose(loaded); /* drops only this reference */
    return true;
}
