/* gpu_tensors.c: tensors on a GPU with known numbers, which are checked after an operation. */
#include "tools/hvdbench/gpu_tensors.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/round_up.h"

#define TENSOR_ALIGN  512 /* frameworks place tensors so */
#define ELEMENT_BYTES INT64_C(4)
#define PERIOD        251 /* of the numbers in tensors; their sums are exact */

/* ---- Memory ------------------------------------------------------------------------------------- */

int64_t gpu_tensors_stride(const struct gpu_tensors *tensors)
{
    return round_up(tensors->elements * ELEMENT_BYTES, TENSOR_ALIGN);
}

int64_t gpu_tensors_extent(const struct gpu_tensors *tensors)
{
    return tensors->count * gpu_tensors_stride(tensors);
}

int64_t gpu_tensors_bytes(const struct gpu_tensors *tensors)
{
    return tensors->count * tensors->elements * ELEMENT_BYTES;
}

static enum hvd_dtype dtype_of(const struct gpu_tensors *tensors, int64_t i)
{
    return i % tensors->types == 0 ? HVD_FLOAT32 : HVD_INT32;
}

int64_t gpu_tensors_of(const struct gpu_tensors *tensors, enum hvd_dtype dtype)
{
    int64_t odd = tensors->types == 1 ? 0 : tensors->count / 2;
    return dtype == HVD_FLOAT32 ? tensors->count - odd : odd;
}

static int allocate(const struct gpu_tensors *tensors, CUdeviceptr *memory, struct hvd_error *err)
{
    const struct bench_gpu *gpu = tensors->gpu;
    int64_t bytes = gpu_tensors_extent(tensors);
    void *allocated = NULL;
    if (!tensors->alloc)
        return bench_gpu_check(gpu, gpu->driver->cuMemAlloc(memory, (size_t)bytes),
                               "no memory for the tensors", err);
    int status = hvd_alloc_on(gpu->device.ordinal, bytes, &allocated);
    *memory = (CUdeviceptr)allocated;
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_alloc_on", err);
}

static void release(const struct gpu_tensors *tensors, CUdeviceptr memory)
{
    if (tensors->alloc)
        hvd_free((void *)memory);
    else if (memory != 0)
        tensors->gpu->driver->cuMemFree(memory);
}

static void place(struct gpu_tensors *tensors, int64_t i)
{
    struct hvd_tensor *tensor = &tensors->tensors[i];
    int64_t at = i * gpu_tensors_stride(tensors);
    snprintf(tensors->names[i], sizeof(tensors->names[i]), "tensor.%lld", (long long)i);
    *tensor =
        hvd_vector(tensors->names[i], (char *)tensors->outputs + at, tensors->elements, dtype_of(tensors, i));
    tensor->input = (char *)tensors->inputs + at;
    tensor->memory = HVD_MEMORY_DEVICE;
    tensor->device = tensors->gpu->device.ordinal;
}

int gpu_tensors_init(struct gpu_tensors *tensors, struct hvd_error *err)
{
    int rc = allocate(tensors, &tensors->inputs, err);
    if (rc == HVD_OK)
        rc = allocate(tensors, &tensors->outputs, err);
    if (rc != HVD_OK)
        return rc;
    tensors->tensors = calloc((size_t)tensors->count, sizeof(*tensors->tensors));
    tensors->names = calloc((size_t)tensors->count, sizeof(*tensors->names));
    if (tensors->tensors == NULL || tensors->names == NULL)
        return error_set_errno(err, "no memory for %lld tensors", (long long)tensors->count);
    for (int64_t i = 0; i < tensors->count; i++)
        place(tensors, i);
    return HVD_OK;
}

void gpu_tensors_fini(struct gpu_tensors *tensors)
{
    release(tensors, tensors->inputs);
    release(tensors, tensors->outputs);
    free(tensors->tensors);
    free(tensors->names);
}

/* ---- Numbers ------------------------------------------------------------------------------------ */

static double input_of(int64_t element, int rank)
{
    return (double)(element % PERIOD + rank);
}

static double result_of(int64_t element, int ranks, enum gpu_result result)
{
    double average = (double)(element % PERIOD) + (ranks - 1) / 2.0;
    return result == GPU_OF_RANK_0 ? input_of(element, 0) : result == GPU_AVERAGE ? average : average * ranks;
}

/* In memory laid out as on the device. */
static char *element_at(const struct gpu_tensors *tensors, char *memory, int64_t i, int64_t element)
{
    return memory + i * gpu_tensors_stride(tensors) + element * ELEMENT_BYTES;
}

static void set_element(char *at, enum hvd_dtype dtype, double value)
{
    if (dtype == HVD_FLOAT32)
        *(float *)(void *)at = (float)value;
    else
        *(int32_t *)(void *)at = (int32_t)value;
}

static double get_element(const char *at, enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT32 ? (double)*(const float *)(const void *)at
                                : (double)*(const int32_t *)(const void *)at;
}

static int copy(const struct gpu_tensors *tensors, void *to, const void *from, struct hvd_error *err)
{
    const struct bench_gpu *gpu = tensors->gpu;
    size_t bytes = (size_t)gpu_tensors_extent(tensors);
    CUresult result = gpu->driver->cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, gpu->stream);
    if (result == CUDA_SUCCESS)
        result = gpu->driver->cuStreamSynchronize(gpu->stream);
    return bench_gpu_check(gpu, result, "no copy", err);
}

static int host_memory(const struct gpu_tensors *tensors, char **memoryp, struct hvd_error *err)
{
    *memoryp = calloc(1, (size_t)gpu_tensors_extent(tensors));
    return *memoryp != NULL ? HVD_OK
                            : error_set_errno(err, "no memory for %lld tensors", (long long)tensors->count);
}

int gpu_tensors_fill(const struct gpu_tensors *tensors, struct hvd_error *err)
{
    char *host = NULL;
    int rc = host_memory(tensors, &host, err);
    for (int64_t i = 0; i < tensors->count && rc == HVD_OK; i++)
        for (int64_t element = 0; element < tensors->elements; element++)
            set_element(element_at(tensors, host, i, element), dtype_of(tensors, i),
                        input_of(i + element, tensors->bench->rank));
    if (rc == HVD_OK)
        rc = copy(tensors, (void *)tensors->inputs, host, err);
    free(host);
    return rc;
}

static int check_tensor(const struct gpu_tensors *tensors, char *host, int64_t i, enum gpu_result result,
                        struct hvd_error *err)
{
    for (int64_t element = 0; element < tensors->elements; element++) {
        double is = get_element(element_at(tensors, host, i, element), dtype_of(tensors, i));
        double expected = result_of(i + element, tensors->bench->size, result);
        if (is != expected)
            return error_set(err, HVD_ERR_SYSTEM, "element %lld of tensor.%lld is %g, expected %g",
                             (long long)element, (long long)i, is, expected);
    }
    return HVD_OK;
}

int gpu_tensors_check(const struct gpu_tensors *tensors, enum gpu_result result, struct hvd_error *err)
{
    char *host = NULL;
    int rc = host_memory(tensors, &host, err);
    if (rc == HVD_OK)
        rc = copy(tensors, host, (void *)tensors->outputs, err);
    for (int64_t i = 0; i < tensors->count && rc == HVD_OK; i++)
        rc = check_tensor(tensors, host, i, result, err);
    free(host);
    return rc;
}

/* ---- Which GPU ---------------------------------------------------------------------------------- */

int gpu_of_rank(void)
{
    const char *chosen = getenv("HVD_LOCAL_DEVICE");
    return chosen != NULL ? (int)strtol(chosen, NULL, 10) : hvd_local_rank();
}
