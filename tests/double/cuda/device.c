/* device.c: devices and their primary contexts, and the names of errors. */
#include "double.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH 32

pthread_mutex_t double_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t double_changed = PTHREAD_COND_INITIALIZER;

static pid_t started_by; /* a forked child has no CUDA */
static struct CUctx_st contexts[DEVICES_MAX];
static __thread CUcontext stack[DEPTH];
static __thread int depth;

CUresult cuInit(unsigned flags)
{
    CUresult result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && started_by == 0)
        started_by = getpid();
    return result == CUDA_SUCCESS ? double_call(__func__) : result;
}

bool double_started(void)
{
    return started_by == getpid();
}

static int device_count(void)
{
    int count = double_number("HVD_DOUBLE_CUDA_DEVICES", 8);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int named = visible != NULL && visible[0] != 0;
    for (const char *at = visible; at != NULL && *at != 0; at++)
        named += *at == ',';
    count = visible != NULL && named < count ? named : count;
    return count < DEVICES_MAX ? count : DEVICES_MAX;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = double_number("HVD_DOUBLE_CUDA_VERSION", 13000);
    return CUDA_SUCCESS;
}

/* The errors that the double gives. */
static const struct {
    CUresult result;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"}};

static int find_error(CUresult result)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].result == result)
            return (int)i;
    return -1;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    int found = find_error(result);
    *name = found >= 0 ? errors[found].name : NULL;
    return found >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    int found = find_error(result);
    *text = found >= 0 ? errors[found].text : NULL;
    return found >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Devices -------------------------------------------------------------------------------- */

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = double_call(__func__);
    if (result == CUDA_SUCCESS)
        *count = device_count();
    return result;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (ordinal < 0 || ordinal >= device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CUresult result = double_call(__func__);
    if (result == CUDA_SUCCESS)
        snprintf(name, (size_t)length, "double of GPU %d", device);
    return result;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    CUresult result = double_call(__func__);
    if (result == CUDA_SUCCESS)
        snprintf(id, (size_t)length, "0000:%02X:00.0", device + 1);
    return result;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (device < 0 || device >= device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 2;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = double_number("HVD_DOUBLE_CUDA_CAPABILITY", 9);
        break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        *value = 1;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

/* ---- Contexts ------------------------------------------------------------------------------- */

CUcontext double_context(int device)
{
    return &contexts[device];
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (device < 0 || device >= device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&double_lock);
    contexts[device].device = device;
    contexts[device].retained++;
    *context = &contexts[device];
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    if (contexts[device].retained == 0)
        double_complain("the context of device %d is released more often than it was retained", device);
    contexts[device].retained--;
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

CUcontext double_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

CUresult double_current_error(void)
{
    CUcontext context = double_current();
    if (context == NULL || context->retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    return context->error;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (context == NULL || context->retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == DEPTH)
        double_complain("%d contexts are pushed and not popped", DEPTH);
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context != NULL)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult result = double_call(__func__);
    if (result == CUDA_SUCCESS)
        *context = double_current();
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (double_current() == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = double_current()->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    result = double_current_error();
    if (result == CUDA_SUCCESS)
        result = double_capture_allows();
    if (result == CUDA_SUCCESS) {
        double_drain(double_current());
        result = double_current_error();
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

int cuDoubleHeld(void)
{
    int held = 0;
    pthread_mutex_lock(&double_lock);
    for (int i = 0; i < DEVICES_MAX; i++)
        held += contexts[i].retained;
    held += double_held_memory() + double_held_streams() + double_held_events() + double_held_modules() +
            double_held_graphs();
    pthread_mutex_unlock(&double_lock);
    return held;
}

__attribute__((destructor)) static void report_contexts(void)
{
    for (int i = 0; i < DEVICES_MAX && double_started(); i++)
        if (contexts[i].retained > 0)
            double_report("the context of device %d is still retained %d times", i, contexts[i].retained);
}
