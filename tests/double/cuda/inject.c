/* inject.c: calls that fail because a test said so. */
#include "double.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

const char double_library[] = "libcuda";

/* Does the call [name], such as cuMemAlloc_v2, count for an entry that says [length] bytes of [wanted]? */
static bool names(const char *name, const char *wanted, size_t length)
{
    return strncmp(name, wanted, length) == 0 && (name[length] == 0 || name[length] == '_');
}

/* Entries of HVD_DOUBLE_CUDA_FAIL are counted down in a table of their own, by place. */
static CUresult chosen_error(const char *name)
{
    static int calls[32];
    CUresult result = CUDA_SUCCESS;
    const char *at = getenv("HVD_DOUBLE_CUDA_FAIL");
    pthread_mutex_lock(&count_lock);
    for (int i = 0; i < 32 && at != NULL && at[0] != 0; i++) {
        size_t length = strcspn(at, ":,");
        int nth = 0;
        int code = 0;
        if (at[length] != ':' || sscanf(at + length, ":%d:%d", &nth, &code) != 2)
            double_complain("HVD_DOUBLE_CUDA_FAIL has %s: expected NAME:NTH:CODE", at);
        if (names(name, at, length) && ++calls[i] == nth)
            result = (CUresult)code;
        at += strcspn(at, ",");
        at += strspn(at, ",");
    }
    pthread_mutex_unlock(&count_lock);
    return result;
}

/* Calls that wait for the device, or may, or ask again and again whether it has done all. */
static bool waits(const char *name)
{
    static const char *const waiting[] = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize",
                                          "cuStreamQuery",       "cuMemAlloc",       "cuMemFree",
                                          "cuMemHostAlloc",      "cuMemFreeHost",    "cuMemHostRegister"};
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        if (names(name, waiting[i], strlen(waiting[i])))
            return true;
    return false;
}

static _Atomic int wait_count;

int cuDoubleWaits(void)
{
    return wait_count;
}

CUresult double_call(const char *name)
{
    wait_count += waits(name);
    CUresult result = chosen_error(name);
    if (result == CUDA_SUCCESS && !double_started())
        return CUDA_ERROR_NOT_INITIALIZED;
    return result;
}

CUresult double_work_error(void)
{
    return chosen_error("work");
}
