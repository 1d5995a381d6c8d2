/* inject.c: calls that fail because a test said so. */
#include "double.h"

const char double_library[] = "libcuda";
const char double_fail_variable[] = "HVD_DOUBLE_CUDA_FAIL";
const int double_fail_code = CUDA_ERROR_LAUNCH_FAILED;

/* Calls that wait for the device, or may, or ask again and again whether it has done all. */
static bool waits(const char *name)
{
    static const char *const waiting[] = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize",
                                          "cuStreamQuery",       "cuMemAlloc",       "cuMemFree",
                                          "cuMemHostAlloc",      "cuMemFreeHost",    "cuMemHostRegister"};
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        if (double_is_call(name, waiting[i]))
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
    CUresult result = (CUresult)double_chosen_error(name);
    if (result == CUDA_SUCCESS && !double_started())
        return CUDA_ERROR_NOT_INITIALIZED;
    return result;
}

CUresult double_work_error(void)
{
    return (CUresult)double_chosen_error("work");
}

bool cuDoubleFail(const char *name, int nth)
{
    return double_choose(name, nth, double_fail_code);
}

void cuDoubleSpare(bool spare)
{
    double_spare(spare);
}
