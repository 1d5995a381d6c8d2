/* driver.c: find CUDA's driver library and its functions at run time, and say what is wrong with it. */
#include "config.h"

#include "cuda/driver_calls.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define OLDEST 11080 /* the first CUDA that knows the GPUs for which the kernels are compiled */

#ifdef HAVE_CUDA
#define MAY_OPEN true
#else
#define MAY_OPEN false /* configure --with-cuda=no */
#endif

/* What the user can do about [result]; "" where that is not known. */
static const char *remedy(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_NOT_INITIALIZED:
        return "; a process that was forked after its parent used CUDA cannot use it: start it anew "
               "(Python: multiprocessing's method spawn)";
    case CUDA_ERROR_STUB_LIBRARY:
        return "; this is the library for linking: take the folder stubs out of LD_LIBRARY_PATH";
    case CUDA_ERROR_NO_DEVICE:
        return "; look at nvidia-smi, CUDA_VISIBLE_DEVICES and the GPUs that the job was granted";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return "; the kernel's driver and libcuda.so.1 are of different versions: ask the administrator";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return "; another process has it to itself: see the compute mode in nvidia-smi";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_IMAGE:
        return "; the driver is older than the CUDA that hvd was built with, see hvdinfo: update the driver, "
               "or "
               "build hvd with an older CUDA";
    default:
        return "";
    }
}

int cuda_error(const struct cuda_driver *driver, CUresult result, struct hvd_error *err, const char *format,
               ...)
{
    char what[256];
    const char *name = NULL;
    const char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown error";
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL)
        text = "this driver has no text for it";
    return error_set(err, result == CUDA_ERROR_OUT_OF_MEMORY ? HVD_ERR_NO_MEMORY : HVD_ERR_SYSTEM,
                     "%s: CUDA: %s (%d): %s%s", what, name, (int)result, text, remedy(result));
}

static int find_functions(struct cuda_driver *driver, const char *library, struct hvd_error *err)
{
#define REQUIRED(call, version, parameters) {#call #version, (void **)&driver->call, true},
#define OPTIONAL(call, version, parameters) {#call #version, (void **)&driver->call, false},
    const struct {
        const char *name;
        void **to;
        bool required;
    } functions[] = {CUDA_DRIVER_CALLS(REQUIRED, OPTIONAL)};
#undef REQUIRED
#undef OPTIONAL
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].to = dlsym(driver->library, functions[i].name);
        if (*functions[i].to == NULL && functions[i].required)
            return error_set(err, HVD_ERR_UNSUPPORTED,
                             "%.200s has no function %s: hvd needs a driver of CUDA %d.%d or newer", library,
                             functions[i].name, OLDEST / 1000, OLDEST % 1000 / 10);
    }
    return HVD_OK;
}

static int start_driver(struct cuda_driver *driver, const char *library, struct hvd_error *err)
{
    int devices = 0;
    CUresult result = driver->cuInit(0);
    if (result == CUDA_SUCCESS)
        result = driver->cuDriverGetVersion(&driver->version);
    if (result == CUDA_SUCCESS)
        result = driver->cuDeviceGetCount(&devices);
    if (result == CUDA_SUCCESS && devices == 0)
        result = CUDA_ERROR_NO_DEVICE;
    if (result != CUDA_SUCCESS) {
        int rc = cuda_error(driver, result, err, "%.200s does not start", library);
        return result == CUDA_ERROR_NO_DEVICE ? HVD_ERR_UNSUPPORTED : rc;
    }
    if (driver->version < OLDEST)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "the driver %.200s is of CUDA %d.%d: hvd needs %d.%d or newer; update the driver",
                         library, driver->version / 1000, driver->version % 1000 / 10, OLDEST / 1000,
                         OLDEST % 1000 / 10);
    return HVD_OK;
}

int cuda_driver_open(const char *library, struct cuda_driver **driverp, struct hvd_error *err)
{
    if (!MAY_OPEN)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "hvd was configured --with-cuda=no, and does not open CUDA's driver library; build "
                         "it without that, or pass tensors in host memory");
    if (library == NULL)
        library = CUDA_DRIVER_LIBRARY;
    struct cuda_driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*driver));
    int rc = HVD_ERR_UNSUPPORTED;
    /* never unloaded: the library leaves threads and exit handlers */
    driver->library = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (driver->library == NULL) {
        const char *why = dlerror();
        error_set(err, rc, "CUDA's driver library cannot be loaded: %s", why != NULL ? why : library);
        goto fail;
    }
    rc = find_functions(driver, library, err);
    if (rc != HVD_OK)
        goto fail;
    rc = start_driver(driver, library, err);
    if (rc != HVD_OK)
        goto fail;
    *driverp = driver;
    return HVD_OK;

fail:
    cuda_driver_close(driver);
    return rc;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    if (driver == NULL)
        return;
    if (driver->library != NULL)
        dlclose(driver->library);
    free(driver);
}
