/* memory.c: allocations, which begin and end at pages that nobody may touch, and whose addresses are never
 * used again. Where the host may not touch the memory of devices, the program's addresses are only names: the
 * content lies elsewhere, and devices look it up. That needs nothing of the processor, and it is the same for
 * all threads. */
#include "double.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE      4096
#define ALIGNMENT 256
#define TOTAL     ((size_t)16 << 30)

struct allocation {
    struct allocation *next;
    enum double_memory kind;
    bool freed;
    int device;
    char *begin; /* as the program knows it */
    size_t bytes;
    char *mapping; /* [begin] and the pages around it */
    size_t mapping_bytes;
    char *content; /* laid out like [mapping]; the same where the host may touch it */
};

static struct allocation *allocations;
static size_t used;

static const char *const kind_names[] = {[DOUBLE_DEVICE] = "memory of device",
                                         [DOUBLE_PINNED] = "pinned memory of device",
                                         [DOUBLE_REGISTERED] = "registered memory of device",
                                         [DOUBLE_MANAGED] = "managed memory of device"};

static struct allocation *find(const void *address)
{
    for (struct allocation *at = allocations; at != NULL; at = at->next)
        if ((const char *)address >= at->begin && (const char *)address < at->begin + at->bytes)
            return at;
    return NULL;
}

bool double_is_pinned(const void *address)
{
    const struct allocation *found = find(address);
    return found != NULL && (found->kind == DOUBLE_PINNED || found->kind == DOUBLE_REGISTERED);
}

void double_check_range(const char *what, const void *begin, uint64_t bytes, bool host_too)
{
    struct allocation *found = bytes > 0 ? find(begin) : NULL;
    if (bytes == 0 || (found == NULL && host_too))
        return;
    if (found == NULL)
        double_complain("%s: %p is no memory that a device can reach", what, begin);
    if (found->freed)
        double_complain("%s: %p was freed", what, begin);
    if ((uint64_t)(found->begin + found->bytes - (const char *)begin) < bytes)
        double_complain("%s: %llu bytes at %p, but the allocation ends after %lld", what,
                        (unsigned long long)bytes, begin,
                        (long long)(found->begin + found->bytes - (const char *)begin));
}

void *double_reach(const void *address)
{
    const struct allocation *found = find(address);
    if (found == NULL || found->content == NULL)
        return (void *)(uintptr_t)address;
    return found->content + ((const char *)address - found->mapping);
}

void *cuDoubleReach(const void *address)
{
    pthread_mutex_lock(&double_lock);
    void *reached = double_reach(address);
    pthread_mutex_unlock(&double_lock);
    return reached;
}

static bool is_protected(enum double_memory kind)
{
    return kind == DOUBLE_DEVICE && double_number("HVD_DOUBLE_CUDA_PROTECT", 1) != 0;
}

/* Addresses for [pages] bytes between two pages that nobody may touch; [usable]: with memory behind them. */
static char *map_between_guards(size_t pages, bool usable)
{
    char *mapping =
        mmap(NULL, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED || (usable && mprotect(mapping + PAGE, pages, PROT_READ | PROT_WRITE) != 0))
        double_complain("this machine has no memory for %zu bytes", pages);
    return mapping;
}

/* Its addresses stay taken. */
static void unmap(char *mapping, size_t bytes)
{
    mmap(mapping, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* The lock is held. */
static CUresult allocate(enum double_memory kind, size_t bytes, void **beginp)
{
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > TOTAL - used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct allocation *made = calloc(1, sizeof(*made));
    if (made == NULL)
        double_complain("this machine has no memory for an allocation");
    made->kind = kind;
    made->device = double_current()->device;
    made->mapping = map_between_guards(pages, !is_protected(kind));
    made->mapping_bytes = pages + 2 * PAGE;
    made->content = is_protected(kind) ? map_between_guards(pages, true) : made->mapping;
    /* its end lies at the page that nobody may touch */
    made->begin = made->mapping + PAGE + pages - (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    made->bytes = bytes;
    made->next = allocations;
    allocations = made;
    used += bytes;
    memset(double_reach(made->begin), 0xa5, bytes);
    *beginp = made->begin;
    return CUDA_SUCCESS;
}

static CUresult allocate_call(const char *name, enum double_memory kind, size_t bytes, void **beginp)
{
    CUresult result = double_call(name);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    result = double_current_error();
    if (result == CUDA_SUCCESS)
        result = double_capture_allows();
    if (result == CUDA_SUCCESS)
        result = allocate(kind, bytes, beginp);
    pthread_mutex_unlock(&double_lock);
    return result;
}

/* Like CUDA's, waits for the devices. */
static CUresult free_call(const char *name, void *address, bool device)
{
    CUresult result = double_call(name);
    if (result != CUDA_SUCCESS || address == NULL)
        return result;
    pthread_mutex_lock(&double_lock);
    struct allocation *found = find(address);
    if (found == NULL || found->begin != address || found->kind == DOUBLE_REGISTERED ||
        (found->kind == DOUBLE_PINNED) == device)
        double_complain("%s: %p is not what it may free", name, address);
    if (found->freed)
        double_complain("%s: %p was freed before", name, address);
    result = double_current_error();
    if (result == CUDA_SUCCESS)
        result = double_capture_allows();
    found->freed =
        double_current() != NULL && double_current()->error != CUDA_SUCCESS; /* no more can be done */
    if (result == CUDA_SUCCESS) {
        double_drain(NULL);
        found->freed = true;
        used -= found->bytes;
        unmap(found->mapping, found->mapping_bytes);
        unmap(found->content, found->mapping_bytes);
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    void *begin = NULL;
    CUresult result = allocate_call(__func__, DOUBLE_DEVICE, bytes, &begin);
    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)begin;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    return free_call(__func__, (void *)address, true);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    void *begin = NULL;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = allocate_call(__func__, DOUBLE_MANAGED, bytes, &begin);
    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)begin;
    return result;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate_call(__func__, DOUBLE_PINNED, bytes, address);
}

CUresult cuMemFreeHost(void *address)
{
    return free_call(__func__, address, false);
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    (void)flags;
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    result = double_current_error();
    if (result == CUDA_SUCCESS && find(address) != NULL && !find(address)->freed)
        double_complain("%s: %p is registered already", __func__, address);
    struct allocation *made = result == CUDA_SUCCESS ? calloc(1, sizeof(*made)) : NULL;
    if (made != NULL) {
        *made = (struct allocation){.next = allocations,
                                    .kind = DOUBLE_REGISTERED,
                                    .device = double_current()->device,
                                    .begin = address,
                                    .bytes = bytes};
        allocations = made;
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

/* The program may register the same memory again: forget it. */
CUresult cuMemHostUnregister(void *address)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    struct allocation **at = &allocations;
    while (*at != NULL && ((*at)->begin != address || (*at)->kind != DOUBLE_REGISTERED))
        at = &(*at)->next;
    if (*at == NULL)
        double_complain("%s: %p is not registered", __func__, address);
    struct allocation *gone = *at;
    double_drain(NULL);
    *at = gone->next;
    free(gone);
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    *free_bytes = TOTAL - used;
    *total_bytes = TOTAL;
    pthread_mutex_unlock(&double_lock);
    return double_current() != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void get_attribute(const struct allocation *found, CUpointer_attribute attribute, void *value)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(CUmemorytype *)value = found == NULL ? 0
                                 : found->kind == DOUBLE_DEVICE || found->kind == DOUBLE_MANAGED
                                     ? CU_MEMORYTYPE_DEVICE
                                     : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)value = found != NULL && found->kind == DOUBLE_MANAGED;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = found != NULL ? found->device : -2;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = found != NULL ? (CUdeviceptr)found->begin : 0;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = found != NULL ? found->bytes : 0;
        break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = found != NULL ? double_context(found->device) : NULL;
        break;
    default:
        double_complain("cuPointerGetAttributes: the double has no attribute %d", (int)attribute);
    }
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr address)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    const struct allocation *found = find((const void *)address);
    if (found != NULL && found->freed)
        found = NULL;
    for (unsigned i = 0; i < count; i++)
        get_attribute(found, attributes[i], values[i]);
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

int double_held_memory(void)
{
    int held = 0;
    for (const struct allocation *at = allocations; at != NULL; at = at->next)
        held += !at->freed;
    return held;
}

__attribute__((destructor)) static void report_allocations(void)
{
    for (struct allocation *at = allocations; at != NULL && double_started(); at = at->next)
        if (!at->freed)
            double_report("%zu bytes of %s %d were not freed", at->bytes, kind_names[at->kind], at->device);
}
