/* nccl_library.c: find NCCL's library and its functions at run time, and say what is wrong with it. */
#include "config.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/nccl/nccl_calls.h"
#include "cuda/device.h"
#include "cuda/driver_calls.h"

#ifdef HAVE_NCCL
#define MAY_OPEN true
#else
#define MAY_OPEN false /* configure --with-nccl=no */
#endif
#define FLOAT8_OLDEST 22400
#define OLDEST        21800 /* the first whose communicators of every kind can be made without waiting */

int nccl_error(const struct nccl *nccl, ncclComm_t comm, ncclResult_t result, struct hvd_error *err,
               const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    const char *text = nccl->ncclGetErrorString(result);
    const char *last = nccl->ncclGetLastError(comm);
    bool has_last = last != NULL && last[0] != 0;
    return error_set(err, HVD_ERR_SYSTEM, "%s: NCCL: %s%s%.400s; NCCL_DEBUG=WARN shows more", what,
                     text != NULL ? text : "unknown error", has_last ? ": " : "", has_last ? last : "");
}

static int find_functions(struct nccl *nccl, struct hvd_error *err)
{
#define REQUIRED(type, call, parameters) {#call, (void **)&nccl->call, true},
#define OPTIONAL(type, call, parameters) {#call, (void **)&nccl->call, false},
    const struct {
        const char *name;
        void **to;
        bool required;
    } functions[] = {NCCL_CALLS(REQUIRED, OPTIONAL)};
#undef REQUIRED
#undef OPTIONAL
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].to = dlsym(nccl->library, functions[i].name);
        if (*functions[i].to == NULL && functions[i].required)
            return error_set(err, HVD_ERR_UNSUPPORTED,
                             "%.200s has no function %s: hvd needs NCCL %d.%d or newer", nccl_file(nccl),
                             functions[i].name, OLDEST / 10000, OLDEST % 10000 / 100);
    }
    return HVD_OK;
}

static int check_version(struct nccl *nccl, struct hvd_error *err)
{
    ncclResult_t result = nccl->ncclGetVersion(&nccl->version);
    if (result != ncclSuccess)
        return nccl_error(nccl, NULL, result, err, "%.200s does not say its version", nccl_file(nccl));
    if (nccl->version >= OLDEST)
        return HVD_OK;
    return error_set(err, HVD_ERR_UNSUPPORTED, "%.200s is NCCL %d.%d.%d: hvd needs %d.%d or newer",
                     nccl_file(nccl), nccl->version / 10000, nccl->version % 10000 / 100, nccl->version % 100,
                     OLDEST / 10000, OLDEST % 10000 / 100);
}

int nccl_open(const char *library, const struct hvd_log *log, struct nccl **ncclp, struct hvd_error *err)
{
    if (!MAY_OPEN)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "hvd was configured --with-nccl=no, and does not open NCCL's library; build it "
                         "without that");
    struct nccl *nccl = calloc(1, sizeof(*nccl));
    if (nccl == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*nccl));
    atomic_init(&nccl->holders, 1);
    nccl->log = log;
    int rc = nccl_search(nccl, library, err);
    if (rc == HVD_OK)
        rc = find_functions(nccl, err);
    if (rc == HVD_OK)
        rc = check_version(nccl, err);
    if (rc != HVD_OK) {
        nccl_close(nccl);
        return rc;
    }
    *ncclp = nccl;
    return HVD_OK;
}

struct nccl *nccl_hold(const struct nccl *nccl)
{
    struct nccl *held = (struct nccl *)(uintptr_t)nccl; /* only the count of holders changes */
    atomic_fetch_add_explicit(&held->holders, 1, memory_order_relaxed);
    return held;
}

void nccl_close(struct nccl *nccl)
{
    if (nccl == NULL || atomic_fetch_sub_explicit(&nccl->holders, 1, memory_order_acq_rel) > 1)
        return;
    if (nccl->library != NULL)
        dlclose(nccl->library);
    free(nccl);
}

int nccl_version(const struct nccl *nccl)
{
    return nccl->version;
}

struct nccl_use nccl_use_on(const struct nccl *nccl, const struct cuda_device *device)
{
    int major = 0;
    CUresult result = device->driver->cuDeviceGetAttribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device->number);
    bool reduces = nccl->version >= FLOAT8_OLDEST && result == CUDA_SUCCESS && major >= 9;
    return (struct nccl_use){.possible = true, .float8 = reduces};
}
