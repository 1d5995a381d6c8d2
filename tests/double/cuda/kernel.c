/* kernel.c: modules, and the kernel, run by the CPU for every block and thread. */
#include "double.h"

#include <stdlib.h>
#include <string.h>

#define FATBIN 0xba55ed50u
#define PTX    '.' /* which begins so; a build without nvcc has a text without a kernel */

struct CUfunc_st {
    CUmodule module;
};

struct CUmod_st {
    CUcontext context;
    struct CUfunc_st pack;
};

static int modules; /* that were not unloaded */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    uint32_t magic = 0;
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    memcpy(&magic, image, sizeof(magic));
    if (magic != FATBIN && *(const char *)image != PTX)
        return CUDA_ERROR_INVALID_IMAGE;
    pthread_mutex_lock(&double_lock);
    result = double_current_error();
    CUmodule made = result == CUDA_SUCCESS ? calloc(1, sizeof(*made)) : NULL;
    if (made != NULL) {
        made->context = double_current();
        made->pack.module = made;
        modules++;
        *module = made;
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

CUresult cuModuleUnload(CUmodule module)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&double_lock);
    double_drain(module->context);
    free(module);
    modules--;
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (strcmp(name, "hvd_pack") != 0)
        return CUDA_ERROR_NOT_FOUND;
    *function = &module->pack;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes)
{
    (void)function;
    (void)threads;
    (void)shared_bytes;
    CUresult result = double_call(__func__);
    if (result == CUDA_SUCCESS)
        *blocks = 1;
    return result;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra)
{
    CUresult result = double_call(__func__);
    if (result != CUDA_SUCCESS)
        return result;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != PACK_THREADS || block_y != 1 ||
        block_z != 1 || shared_bytes != 0 || extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&double_lock);
    stream = double_stream(stream, __func__, &result);
    if (stream != NULL && stream->context != function->module->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        struct work work = {.kind = WORK_KERNEL, .blocks = grid_x};
        memcpy(&work.pack, parameters[0], sizeof(work.pack));
        result = double_submit(stream, &work);
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

/* What the device would only notice by chance: memory that was freed, or ends too early. Returns how many
 * entries there are, without the last. */
static int64_t check_table(const struct pack_arguments *arguments)
{
    const struct pack_table *table = &arguments->table;
    int64_t buffer_bytes = pack_dtype_bytes(arguments->buffer_dtype);
    int64_t count = 0;
    double_check_range("hvd_pack: the table of tiles", table->first,
                       (uint64_t)table->tile_count * sizeof(*table->first), false);
    for (const struct pack_entry *entry = NULL;; count++) {
        double_check_range("hvd_pack: the table of entries", &table->entries[count], sizeof(*entry), false);
        entry = double_reach(&table->entries[count]);
        if (entry->work_at >= table->work_bytes)
            return count;
        uint64_t tensor_bytes = (uint64_t)(entry->count * pack_dtype_bytes((int)entry->dtype));
        if (entry->tensor != 0)
            double_check_range("hvd_pack: a tensor", (const void *)(uintptr_t)entry->tensor, tensor_bytes,
                               false);
        double_check_range("hvd_pack: the buffer",
                           (const void *)(uintptr_t)(arguments->buffer + entry->buffer_at),
                           (uint64_t)(entry->count * buffer_bytes), false);
    }
}

static uint64_t reach(uint64_t address)
{
    return (uint64_t)(uintptr_t)double_reach((const void *)(uintptr_t)address);
}

/* Turn all addresses in [arguments] into those at which the device finds the memory. Returns the entries,
 * which are to be freed. */
static struct pack_entry *reach_all(struct pack_arguments *arguments, int64_t count)
{
    struct pack_table *table = &arguments->table;
    struct pack_entry *entries = malloc((size_t)(count + 1) * sizeof(*entries));
    if (entries == NULL)
        double_complain("this machine has no memory for a table of %lld entries", (long long)count);
    memcpy(entries, double_reach(table->entries), (size_t)(count + 1) * sizeof(*entries));
    for (int64_t i = 0; i < count; i++)
        entries[i].tensor = entries[i].tensor != 0 ? reach(entries[i].tensor) : 0;
    table->entries = entries;
    table->first = double_reach(table->first);
    arguments->buffer = reach(arguments->buffer);
    return entries;
}

void double_run_kernel(const struct pack_arguments *arguments, unsigned blocks)
{
    struct pack_arguments reached = *arguments;
    pthread_mutex_lock(&double_lock);
    struct pack_entry *entries = reach_all(&reached, check_table(arguments));
    pthread_mutex_unlock(&double_lock);
    for (int64_t block = blocks - 1; block >= 0; block--)
        for (int thread = 0; thread < PACK_THREADS; thread++)
            pack_thread(&reached, block, blocks, thread);
    free(entries);
}

int double_held_modules(void)
{
    return modules;
}

__attribute__((destructor)) static void report_modules(void)
{
    if (double_started() && modules > 0)
        double_report("%d modules were not unloaded", modules);
}
