/* pack.c: how fast a GPU packs the gradients of a model into one buffer and unpacks them, beside a copy of as
 * many bytes on the device. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "cuda/driver_calls.h"
#include "cuda/pack.h"
#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/model.h"
#include "tools/hvdbench/report.h"
#include "tools/hvdbench/stats.h"

#define SMALL_COUNT  10000
#define SMALL_BYTES  1024
#define TENSOR_ALIGN 512 /* frameworks place tensors so */
#define PERIOD       251 /* of the numbers in tensors, which bfloat16 holds exactly */

enum pack_way { COPY, PACK, UNPACK, PACK_HALF, UNPACK_HALF, WAYS };

static const char *const way_names[WAYS] = {"copy", "pack", "unpack", "pack to bfloat16, scaled",
                                            "unpack from bfloat16, scaled"};

/* The GPU, with the tensors of one model and a buffer. */
struct bench_gpu {
    struct cuda_driver *driver;
    struct cuda_device device;
    int mode;
    bool entered;
    char name[100];
    CUstream stream;
    CUevent begin, end;
    struct pack_kernels *kernels;
    CUdeviceptr tensors, buffer, other;
    struct pack_piece *pieces;
    int count;
    int64_t elements, tensor_bytes; /* of all tensors; of the memory that they are in */
    struct pack_plan *exact, *half;
};

static int failed(const struct bench_gpu *gpu, CUresult result, const char *what, struct hvd_error *err)
{
    return result == CUDA_SUCCESS ? HVD_OK : cuda_error(gpu->driver, result, err, "%s", what);
}

/* ---- The GPU -------------------------------------------------------------------------------- */

static int gpu_open(struct bench_gpu *gpu, struct hvd_error *err)
{
    CUdevice number = 0;
    int rc = cuda_driver_open(NULL, &gpu->driver, err);
    if (rc == HVD_OK)
        rc = cuda_device_open(gpu->driver, 0, &gpu->device, err);
    if (rc == HVD_OK)
        rc = cuda_device_enter(&gpu->device, &gpu->mode, err);
    if (rc != HVD_OK)
        return rc;
    gpu->entered = true;
    const struct cuda_driver *driver = gpu->driver;
    if (driver->cuEventElapsedTime == NULL)
        return error_set(
            err, HVD_ERR_UNSUPPORTED,
            "the driver is too old for the CUDA that hvd was built with to measure time on a GPU: update it");
    rc = pack_kernels_load(&gpu->device, &gpu->kernels, err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuStreamCreateWithPriority(&gpu->stream, CU_STREAM_NON_BLOCKING, 0),
                    "no stream", err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuEventCreate(&gpu->begin, CU_EVENT_DEFAULT), "no event", err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuEventCreate(&gpu->end, CU_EVENT_DEFAULT), "no event", err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuDeviceGet(&number, 0), "GPU 0", err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuDeviceGetName(gpu->name, sizeof(gpu->name), number), "GPU 0", err);
    return rc;
}

static void gpu_close(struct bench_gpu *gpu)
{
    const struct cuda_driver *driver = gpu->driver;
    pack_kernels_unload(gpu->kernels);
    if (gpu->begin != NULL)
        driver->cuEventDestroy(gpu->begin);
    if (gpu->end != NULL)
        driver->cuEventDestroy(gpu->end);
    if (gpu->stream != NULL)
        driver->cuStreamDestroy(gpu->stream);
    if (gpu->entered)
        cuda_device_leave(&gpu->device, gpu->mode);
    cuda_device_close(&gpu->device);
    cuda_driver_close(gpu->driver);
}

/* ---- The tensors of a model ----------------------------------------------------------------- */

static void unload(struct bench_gpu *gpu)
{
    CUdeviceptr *const memory[] = {&gpu->tensors, &gpu->buffer, &gpu->other};
    gpu->driver->cuStreamSynchronize(gpu->stream);
    pack_plan_put(gpu->exact);
    pack_plan_put(gpu->half);
    gpu->exact = gpu->half = NULL;
    for (int i = 0; i < 3; i++) {
        if (*memory[i] != 0)
            gpu->driver->cuMemFree(*memory[i]);
        *memory[i] = 0;
    }
    free(gpu->pieces);
    gpu->pieces = NULL;
}

static int get_plan(struct bench_gpu *gpu, enum hvd_dtype buffer_dtype, struct pack_plan **planp,
                    struct hvd_error *err)
{
    const struct pack_list list = {gpu->pieces, gpu->count, buffer_dtype};
    return pack_plan_get(gpu->kernels, &list, gpu->stream, planp, err);
}

/* Gradients come in reverse order. They are float32 here whatever the model says. */
static int load(struct bench_gpu *gpu, const struct model *model, struct hvd_error *err)
{
    int64_t at = 0;
    gpu->elements = 0;
    gpu->count = model->count;
    gpu->pieces = calloc((size_t)model->count + 1, sizeof(*gpu->pieces));
    if (gpu->pieces == NULL)
        return error_set_errno(err, "no memory for %d tensors", model->count);
    for (int i = 0; i < model->count; i++) {
        int64_t count = model->tensors[model->count - 1 - i].count;
        gpu->pieces[i] = (struct pack_piece){
            .tensor = (void *)at, .count = count, .buffer_at = gpu->elements, .dtype = HVD_FLOAT32};
        at += (count * (int64_t)sizeof(float) + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
        gpu->elements += count;
    }
    gpu->tensor_bytes = at;
    size_t bytes = (size_t)gpu->elements * sizeof(float);
    int rc =
        failed(gpu, gpu->driver->cuMemAlloc(&gpu->tensors, (size_t)at), "no memory for the tensors", err);
    if (rc == HVD_OK)
        rc = failed(gpu, gpu->driver->cuMemAlloc(&gpu->buffer, bytes), "no memory for the buffer", err);
    if (rc == HVD_OK)
        rc = failed(gpu, gpu->driver->cuMemAlloc(&gpu->other, bytes), "no memory for the copy", err);
    for (int i = 0; i < model->count; i++)
        gpu->pieces[i].tensor = (char *)gpu->tensors + (int64_t)gpu->pieces[i].tensor;
    if (rc == HVD_OK)
        rc = get_plan(gpu, HVD_FLOAT32, &gpu->exact, err);
    if (rc == HVD_OK)
        rc = get_plan(gpu, HVD_BFLOAT16, &gpu->half, err);
    return rc;
}

/* ---- What is measured ----------------------------------------------------------------------- */

static int launch(const struct bench_gpu *gpu, enum pack_way way, struct hvd_error *err)
{
    void *buffer = (void *)gpu->buffer;
    size_t bytes = (size_t)gpu->elements * sizeof(float);
    switch (way) {
    case PACK:
        return pack_launch(gpu->exact, buffer, 1, gpu->stream, err);
    case UNPACK:
        return unpack_launch(gpu->exact, buffer, 1, gpu->stream, err);
    case PACK_HALF:
        return pack_launch(gpu->half, buffer, 0.5, gpu->stream, err);
    case UNPACK_HALF:
        return unpack_launch(gpu->half, buffer, 2, gpu->stream, err);
    default:
        return failed(gpu, gpu->driver->cuMemcpyDtoDAsync(gpu->other, gpu->buffer, bytes, gpu->stream),
                      "the GPU does not copy", err);
    }
}

/* Bytes that a way reads and writes. */
static double moved_bytes(const struct bench_gpu *gpu, enum pack_way way)
{
    return (double)gpu->elements * (way == PACK_HALF || way == UNPACK_HALF ? 6 : 8);
}

/* 10^9 bytes a second, by the device's clock. */
static int measure_once(const struct bench_gpu *gpu, enum pack_way way, double *rate, struct hvd_error *err)
{
    const struct cuda_driver *driver = gpu->driver;
    float ms = 0;
    int rc = failed(gpu, driver->cuEventRecord(gpu->begin, gpu->stream), "no time", err);
    if (rc == HVD_OK)
        rc = launch(gpu, way, err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuEventRecord(gpu->end, gpu->stream), "no time", err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuEventSynchronize(gpu->end), way_names[way], err);
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuEventElapsedTime(&ms, gpu->begin, gpu->end), "no time", err);
    *rate = moved_bytes(gpu, way) / (ms > 0 ? ms : 1e-6) / 1e6;
    return rc;
}

/* All ways in turn; the medians. [samples] has room for all rounds of all ways. */
static int measure(const struct bench_gpu *gpu, int64_t rounds, double *samples, double medians[WAYS],
                   struct hvd_error *err)
{
    for (int64_t round = -2; round < rounds; round++) /* two to warm up */
        for (int way = 0; way < WAYS; way++) {
            double rate = 0;
            int rc = measure_once(gpu, (enum pack_way)way, &rate, err);
            if (rc != HVD_OK)
                return rc;
            if (round >= 0)
                samples[way * rounds + round] = rate;
        }
    for (int way = 0; way < WAYS; way++)
        medians[way] = stats_of(samples + way * rounds, (int)rounds).median;
    return HVD_OK;
}

/* ---- Is it right? --------------------------------------------------------------------------- */

static int check_buffer(const struct bench_gpu *gpu, float *host, struct hvd_error *err)
{
    size_t bytes = (size_t)gpu->elements * sizeof(float);
    memset(host, 0xff, bytes);
    int rc =
        failed(gpu, gpu->driver->cuMemcpyDtoHAsync(host, gpu->buffer, bytes, gpu->stream), "no copy", err);
    if (rc == HVD_OK)
        rc = failed(gpu, gpu->driver->cuStreamSynchronize(gpu->stream), "packing", err);
    for (int64_t i = 0; i < gpu->elements && rc == HVD_OK; i++)
        if (host[i] != (float)(i % PERIOD))
            rc = error_set(err, HVD_ERR_SYSTEM,
                           "the GPU packed %g as element %lld, expected %g: do not trust it", (double)host[i],
                           (long long)i, (double)(i % PERIOD));
    return rc;
}

/* Known numbers go into the tensors, by bfloat16 and back, and into the buffer again. */
static int check(const struct bench_gpu *gpu, struct hvd_error *err)
{
    static const enum pack_way round_trip[] = {UNPACK, PACK_HALF, UNPACK_HALF, PACK};
    const struct cuda_driver *driver = gpu->driver;
    size_t bytes = (size_t)gpu->elements * sizeof(float);
    float *host = malloc(bytes);
    if (host == NULL)
        return error_set_errno(err, "no memory for %zu bytes", bytes);
    for (int64_t i = 0; i < gpu->elements; i++)
        host[i] = (float)(i % PERIOD);
    int rc = failed(gpu, driver->cuMemcpyHtoDAsync(gpu->buffer, host, bytes, gpu->stream), "no copy", err);
    for (int i = 0; i < 4 && rc == HVD_OK; i++) {
        if (round_trip[i] == PACK || round_trip[i] == PACK_HALF) /* what is not packed must be seen */
            rc = failed(gpu, driver->cuMemsetD8Async(gpu->buffer, 0xff, bytes, gpu->stream), "no copy", err);
        if (rc == HVD_OK)
            rc = launch(gpu, round_trip[i], err);
    }
    if (rc == HVD_OK)
        rc = failed(gpu, driver->cuStreamSynchronize(gpu->stream), "packing", err);
    if (rc == HVD_OK)
        rc = check_buffer(gpu, host, err);
    free(host);
    return rc;
}

/* ---- Results -------------------------------------------------------------------------------- */

/* Figures of a double would be taken for those of a GPU. */
static bool is_double(const struct bench_gpu *gpu)
{
    return strncmp(gpu->name, "double", 6) == 0;
}

static void show_json(const struct bench_options *options, const struct bench_gpu *gpu, const char *title,
                      const double medians[WAYS])
{
    for (int way = 0; way < WAYS; way++) {
        struct json json = json_open(stdout, bench_case_name(options->chosen));
        json_text(&json, "gpu", gpu->name);
        json_text(&json, "model", title);
        json_text(&json, "way", way_names[way]);
        json_count(&json, "tensors", gpu->count);
        json_count(&json, "bytes", gpu->elements * (int64_t)sizeof(float));
        json_count(&json, "rounds", options->rounds);
        json_text(&json, "version", hvd_version());
        if (!is_double(gpu)) {
            json_number(&json, "gbs", medians[way]);
            json_number(&json, "of_copy", medians[way] / medians[COPY]);
        }
        json_close(&json);
    }
}

static void show(const struct bench_options *options, const struct bench_gpu *gpu, const char *title,
                 const double medians[WAYS])
{
    char bytes[REPORT_TEXT_BYTES];
    printf("pack: %s, %d tensors, %s, on %s, %lld round%s; 10^9 bytes a second read and written\n", title,
           gpu->count, report_bytes(gpu->elements * (int64_t)sizeof(float), bytes), gpu->name,
           (long long)options->rounds, report_s(options->rounds));
    if (is_double(gpu))
        printf("  right in all ways; no figures, because this is no GPU\n");
    for (int way = 0; way < WAYS && !is_double(gpu); way++)
        printf("  %-30s  %8.1f  %5.1f %% of copy\n", way_names[way], medians[way],
               100 * medians[way] / medians[COPY]);
}

static int run_model(const struct bench_options *options, struct bench_gpu *gpu, const struct model *model,
                     struct hvd_error *err)
{
    double medians[WAYS] = {0};
    double *samples = calloc((size_t)options->rounds * WAYS, sizeof(*samples));
    int rc = samples != NULL ? load(gpu, model, err)
                             : error_set_errno(err, "no memory for %lld rounds", (long long)options->rounds);
    if (rc == HVD_OK)
        rc = check(gpu, err);
    if (rc == HVD_OK)
        rc = measure(gpu, options->rounds, samples, medians, err);
    if (rc == HVD_OK && options->json)
        show_json(options, gpu, model->title, medians);
    else if (rc == HVD_OK)
        show(options, gpu, model->title, medians);
    unload(gpu);
    free(samples);
    return rc;
}

static int run_named(const struct bench_options *options, struct bench_gpu *gpu, const char *title,
                     struct hvd_error *err)
{
    struct model model = {0};
    int rc =
        title != NULL ? model_load(&model, title, err) : model_uniform(&model, SMALL_COUNT, SMALL_BYTES, err);
    if (rc == HVD_OK && title == NULL)
        model.title = "10000 of 1 KiB";
    if (rc == HVD_OK)
        rc = run_model(options, gpu, &model, err);
    model_fini(&model);
    return rc;
}

int case_pack(struct bench *bench, struct hvd_error *err)
{
    static const char *const titles[] = {"resnet50", "bert-large", "gpt2", NULL /* small ones */};
    const struct bench_options *options = bench->options;
    struct bench_gpu gpu = {0};
    if (!options->gpu)
        return error_set(err, HVD_ERR_INVALID,
                         "pack measures GPUs: give --gpu; allreduce shows what packing costs a CPU");
    int rc = gpu_open(&gpu, err);
    if (rc == HVD_OK && options->model != NULL)
        rc = run_named(options, &gpu, options->model, err);
    for (int i = 0; i < 4 && rc == HVD_OK && options->model == NULL; i++)
        rc = run_named(options, &gpu, titles[i], err);
    gpu_close(&gpu);
    return rc;
}
