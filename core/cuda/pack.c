/* pack.c: load the kernels, keep the tables of plans on the device, and launch. */
#include "config.h"

#include "cuda/pack.h"

#include <stdlib.h>

#include "cuda/driver_calls.h"
#include "cuda/pack_image.h"
#include "cuda/pack_table.h"

#define IDLE_MAX          256          /* plans that are remembered while nobody uses them */
#define TABLE_BYTES_LEAST (size_t)4096 /* of memory for a table; greater ones are powers of two */

/* Memory for a table: pinned, where it is written, and the device's, where it is sent. Allocating either
 * makes the host wait for the device, so that memory is used again. */
struct table_memory {
    struct table_memory *next;
    size_t bytes;
    void *host;
    CUdeviceptr device;
};

struct pack_plan {
    struct pack_plan *next; /* those used last come first */
    struct pack_kernels *kernels;
    int users;
    struct pack_list list;       /* its pieces are owned */
    struct table_memory *memory; /* owned */
    struct pack_table table;
};

struct pack_kernels {
    struct cuda_device device; /* borrowed */
    CUmodule module;
    CUfunction function;
    int blocks; /* that run at the same time */
    struct pack_plan *plans;
    int idle;
    struct table_memory *unused;
};

/* ---- Kernels -------------------------------------------------------------------------------- */

static CUresult find_kernel(struct pack_kernels *kernels)
{
    const struct cuda_driver *driver = kernels->device.driver;
    int processors = 0;
    int blocks = 0;
    CUresult result = driver->cuModuleLoadData(&kernels->module, pack_image);
    if (result == CUDA_SUCCESS)
        result = driver->cuModuleGetFunction(&kernels->function, kernels->module, "hvd_pack");
    if (result == CUDA_SUCCESS)
        result = driver->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                              kernels->device.number);
    if (result == CUDA_SUCCESS)
        result =
            driver->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernels->function, PACK_THREADS, 0);
    kernels->blocks = processors * blocks;
    return result;
}

static int load_error(const struct cuda_device *device, CUresult result, struct hvd_error *err)
{
    if (pack_image[0] == '.')
        return error_set(
            err, HVD_ERR_UNSUPPORTED,
            "GPU %d cannot pack tensors: hvd was built %s; build it where configure finds nvcc, or pass "
            "tensors in host memory",
            device->ordinal, BUILT_WITH_CUDA);
    return cuda_error(device->driver, result, err, "GPU %d does not load hvd's kernels", device->ordinal);
}

int pack_kernels_load(const struct cuda_device *device, struct pack_kernels **kernelsp, struct hvd_error *err)
{
    struct pack_kernels *kernels = calloc(1, sizeof(*kernels));
    if (kernels == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*kernels));
    kernels->device = *device;
    CUresult result = find_kernel(kernels);
    if (result != CUDA_SUCCESS) {
        int rc = load_error(device, result, err);
        pack_kernels_unload(kernels);
        return rc;
    }
    *kernelsp = kernels;
    return HVD_OK;
}

/* ---- Memory for tables ---------------------------------------------------------------------- */

static void memory_free(const struct cuda_driver *driver, struct table_memory *memory)
{
    if (memory->device != 0)
        driver->cuMemFree(memory->device);
    if (memory->host != NULL)
        driver->cuMemFreeHost(memory->host);
    free(memory);
}

static struct table_memory *memory_reuse(struct pack_kernels *kernels, size_t bytes)
{
    for (struct table_memory **at = &kernels->unused; *at != NULL; at = &(*at)->next) {
        struct table_memory *memory = *at;
        if (memory->bytes == bytes) {
            *at = memory->next;
            return memory;
        }
    }
    return NULL;
}

static int memory_get(struct pack_kernels *kernels, size_t table_bytes, struct table_memory **memoryp,
                      struct hvd_error *err)
{
    const struct cuda_driver *driver = kernels->device.driver;
    size_t bytes = TABLE_BYTES_LEAST;
    while (bytes < table_bytes)
        bytes *= 2;
    struct table_memory *memory = memory_reuse(kernels, bytes);
    if (memory != NULL) {
        *memoryp = memory;
        return HVD_OK;
    }
    memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*memory));
    memory->bytes = bytes;
    CUresult result = driver->cuMemHostAlloc(&memory->host, bytes, 0);
    if (result == CUDA_SUCCESS)
        result = driver->cuMemAlloc(&memory->device, bytes);
    if (result != CUDA_SUCCESS) {
        memory_free(driver, memory);
        return cuda_error(driver, result, err, "GPU %d has no memory for a table of %zu bytes",
                          kernels->device.ordinal, bytes);
    }
    *memoryp = memory;
    return HVD_OK;
}

/* ---- Plans ---------------------------------------------------------------------------------- */

/* Its memory can be used again. */
static void plan_free(struct pack_plan *plan)
{
    if (plan->memory != NULL) {
        plan->memory->next = plan->kernels->unused;
        plan->kernels->unused = plan->memory;
    }
    free((void *)plan->list.pieces);
    free(plan);
}

void pack_kernels_unload(struct pack_kernels *kernels)
{
    if (kernels == NULL)
        return;
    const struct cuda_driver *driver = kernels->device.driver;
    while (kernels->plans != NULL) {
        struct pack_plan *plan = kernels->plans;
        kernels->plans = plan->next;
        plan_free(plan);
    }
    while (kernels->unused != NULL) {
        struct table_memory *memory = kernels->unused;
        kernels->unused = memory->next;
        memory_free(driver, memory);
    }
    if (kernels->module != NULL)
        driver->cuModuleUnload(kernels->module);
    free(kernels);
}

/* Plans of different batches differ in their first piece, so that only the right one is compared whole. */
static bool same_list(const struct pack_list *one, const struct pack_list *other)
{
    if (one->count != other->count || one->buffer_dtype != other->buffer_dtype)
        return false;
    for (int i = 0; i < one->count; i++) {
        const struct pack_piece *a = &one->pieces[i];
        const struct pack_piece *b = &other->pieces[i];
        if (a->tensor != b->tensor || a->count != b->count || a->buffer_at != b->buffer_at ||
            a->dtype != b->dtype)
            return false;
    }
    return true;
}

/* Take the plan out of the list of plans; NULL if there is none. */
static struct pack_plan *plan_take(struct pack_kernels *kernels, const struct pack_list *list)
{
    for (struct pack_plan **at = &kernels->plans; *at != NULL; at = &(*at)->next) {
        struct pack_plan *plan = *at;
        if (same_list(&plan->list, list)) {
            *at = plan->next;
            return plan;
        }
    }
    return NULL;
}

static int send_table(struct pack_plan *plan, const struct pack_layout *layout, CUstream stream,
                      struct hvd_error *err)
{
    const struct cuda_device *device = &plan->kernels->device;
    struct table_memory *memory = plan->memory;
    pack_table_fill(layout, &plan->list, memory->host);
    plan->table = pack_table_at(layout, memory->device);
    CUresult result =
        device->driver->cuMemcpyHtoDAsync(memory->device, memory->host, layout->table_bytes, stream);
    if (result != CUDA_SUCCESS)
        return cuda_error(device->driver, result, err, "GPU %d takes no table of %zu bytes", device->ordinal,
                          layout->table_bytes);
    return HVD_OK;
}

static int plan_create(struct pack_kernels *kernels, const struct pack_list *list, CUstream stream,
                       struct pack_plan **planp, struct hvd_error *err)
{
    struct pack_layout layout;
    size_t pieces_bytes = (size_t)list->count * sizeof(*list->pieces);
    int64_t workers = (int64_t)kernels->blocks * PACK_BLOCK_WORKERS;
    int rc = pack_layout(list, workers, &layout, err);
    if (rc != HVD_OK)
        return rc;
    struct pack_plan *plan = calloc(1, sizeof(*plan));
    struct pack_piece *pieces = malloc(pieces_bytes + 1);
    if (plan == NULL || pieces == NULL) {
        free(plan);
        free(pieces);
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*plan) + pieces_bytes);
    }
    for (int i = 0; i < list->count; i++)
        pieces[i] = list->pieces[i];
    plan->kernels = kernels;
    plan->list = *list;
    plan->list.pieces = pieces;
    rc = memory_get(kernels, layout.table_bytes, &plan->memory, err);
    if (rc == HVD_OK)
        rc = send_table(plan, &layout, stream, err);
    if (rc != HVD_OK)
        plan_free(plan);
    else
        *planp = plan;
    return rc;
}

int pack_plan_get(struct pack_kernels *kernels, const struct pack_list *list, CUstream stream,
                  struct pack_plan **planp, struct hvd_error *err)
{
    struct pack_plan *plan = plan_take(kernels, list);
    if (plan == NULL) {
        int rc = plan_create(kernels, list, stream, &plan, err);
        if (rc != HVD_OK)
            return rc;
    } else {
        kernels->idle -= plan->users == 0;
    }
    plan->users++;
    plan->next = kernels->plans;
    kernels->plans = plan;
    *planp = plan;
    return HVD_OK;
}

/* Forget the idle plan that was used longest ago. */
static void forget_one(struct pack_kernels *kernels)
{
    struct pack_plan **oldest = NULL;
    for (struct pack_plan **at = &kernels->plans; *at != NULL; at = &(*at)->next)
        if ((*at)->users == 0)
            oldest = at;
    struct pack_plan *plan = *oldest;
    *oldest = plan->next;
    plan_free(plan);
    kernels->idle--;
}

void pack_plan_put(struct pack_plan *plan)
{
    if (plan == NULL || --plan->users > 0)
        return;
    struct pack_kernels *kernels = plan->kernels;
    kernels->idle++;
    if (kernels->idle > IDLE_MAX)
        forget_one(kernels);
}

/* ---- Launches ------------------------------------------------------------------------------- */

static int launch(const struct pack_plan *plan, struct pack_arguments arguments, CUstream stream,
                  struct hvd_error *err)
{
    const struct pack_kernels *kernels = plan->kernels;
    const struct cuda_driver *driver = kernels->device.driver;
    int64_t blocks = (plan->table.tile_count + PACK_BLOCK_WORKERS - 1) / PACK_BLOCK_WORKERS;
    unsigned grid = (unsigned)(blocks < kernels->blocks ? blocks : kernels->blocks);
    void *parameters[] = {&arguments};
    if (grid == 0)
        return HVD_OK;
    arguments.table = plan->table;
    arguments.buffer_dtype = (int)plan->list.buffer_dtype;
    CUresult result = driver->cuLaunchKernel(kernels->function, grid, 1, 1, PACK_THREADS, 1, 1, 0, stream,
                                             parameters, NULL);
    if (result != CUDA_SUCCESS)
        return cuda_error(driver, result, err, "GPU %d cannot %s %d tensors", kernels->device.ordinal,
                          arguments.unpack ? "unpack" : "pack", plan->list.count);
    return HVD_OK;
}

int pack_launch(const struct pack_plan *plan, void *buffer, double scale, CUstream stream,
                struct hvd_error *err)
{
    struct pack_arguments arguments = {.buffer = (uint64_t)(uintptr_t)buffer, .scale = scale};
    return launch(plan, arguments, stream, err);
}

int unpack_launch(const struct pack_plan *plan, const void *buffer, double scale, CUstream stream,
                  struct hvd_error *err)
{
    struct pack_arguments arguments = {.buffer = (uint64_t)(uintptr_t)buffer, .scale = scale, .unpack = true};
    return launch(plan, arguments, stream, err);
}
