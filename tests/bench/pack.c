/* pack.c: how fast a GPU packs the gradients of a model into one buffer and unpacks them, beside a copy of as
 * many bytes on the device. */
#include <stdlib.h>
#include <string.h>

#include "base/round_up.h"
#include "tests/bench/parts.h"
#include "tools/hvdbench/gpu.h"
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

/* The tensors of one model on a GPU, and a buffer. */
struct pack_load {
    struct bench_gpu gpu;
    CUdeviceptr tensors, buffer, other;
    struct pack_piece *pieces;
    int count;
    int64_t elements; /* of all tensors */
    struct pack_plan *exact, *half;
};

static int failed(const struct pack_load *load, CUresult result, const char *what, struct hvd_error *err)
{
    return bench_gpu_check(&load->gpu, result, what, err);
}

/* ---- The tensors of a model ----------------------------------------------------------------- */

static void unload_model(struct pack_load *load)
{
    CUdeviceptr *const memory[] = {&load->tensors, &load->buffer, &load->other};
    load->gpu.driver->cuStreamSynchronize(load->gpu.stream);
    pack_plan_put(load->exact);
    pack_plan_put(load->half);
    load->exact = load->half = NULL;
    for (int i = 0; i < 3; i++) {
        if (*memory[i] != 0)
            load->gpu.driver->cuMemFree(*memory[i]);
        *memory[i] = 0;
    }
    free(load->pieces);
    load->pieces = NULL;
}

static int get_plan(struct pack_load *load, enum hvd_dtype buffer_dtype, struct pack_plan **planp,
                    struct hvd_error *err)
{
    const struct pack_list list = {load->pieces, load->count, buffer_dtype};
    return pack_plan_get(load->gpu.kernels, &list, load->gpu.stream, planp, err);
}

/* Gradients come in reverse order. They are float32 here whatever the model says. */
static int load_model(struct pack_load *load, const struct model *model, struct hvd_error *err)
{
    int64_t at = 0;
    load->elements = 0;
    load->count = model->count;
    load->pieces = calloc((size_t)model->count + 1, sizeof(*load->pieces));
    if (load->pieces == NULL)
        return error_set_errno(err, "no memory for %d tensors", model->count);
    for (int i = 0; i < model->count; i++) {
        int64_t count = model->tensors[model->count - 1 - i].count;
        load->pieces[i] = (struct pack_piece){
            .tensor = (void *)at, .count = count, .buffer_at = load->elements, .dtype = HVD_FLOAT32};
        at += round_up(count * (int64_t)sizeof(float), TENSOR_ALIGN);
        load->elements += count;
    }
    size_t bytes = (size_t)load->elements * sizeof(float);
    int rc = failed(load, load->gpu.driver->cuMemAlloc(&load->tensors, (size_t)at),
                    "no memory for the tensors", err);
    if (rc == HVD_OK)
        rc =
            failed(load, load->gpu.driver->cuMemAlloc(&load->buffer, bytes), "no memory for the buffer", err);
    if (rc == HVD_OK)
        rc = failed(load, load->gpu.driver->cuMemAlloc(&load->other, bytes), "no memory for the copy", err);
    for (int i = 0; i < model->count; i++)
        load->pieces[i].tensor = (char *)load->tensors + (int64_t)load->pieces[i].tensor;
    if (rc == HVD_OK)
        rc = get_plan(load, HVD_FLOAT32, &load->exact, err);
    if (rc == HVD_OK)
        rc = get_plan(load, HVD_BFLOAT16, &load->half, err);
    return rc;
}

/* ---- What is measured ----------------------------------------------------------------------- */

static int launch(const struct pack_load *load, enum pack_way way, struct hvd_error *err)
{
    void *buffer = (void *)load->buffer;
    size_t bytes = (size_t)load->elements * sizeof(float);
    switch (way) {
    case PACK:
        return pack_launch(load->exact, buffer, 1, load->gpu.stream, err);
    case UNPACK:
        return unpack_launch(load->exact, buffer, 1, load->gpu.stream, err);
    case PACK_HALF:
        return pack_launch(load->half, buffer, 0.5, load->gpu.stream, err);
    case UNPACK_HALF:
        return unpack_launch(load->half, buffer, 2, load->gpu.stream, err);
    default:
        return failed(load,
                      load->gpu.driver->cuMemcpyDtoDAsync(load->other, load->buffer, bytes, load->gpu.stream),
                      "the GPU does not copy", err);
    }
}

/* Bytes that a way reads and writes. */
static double moved_bytes(const struct pack_load *load, enum pack_way way)
{
    return (double)load->elements * (way == PACK_HALF || way == UNPACK_HALF ? 6 : 8);
}

/* 10^9 bytes a second, by the device's clock. */
static int measure_once(const struct pack_load *load, enum pack_way way, double *rate, struct hvd_error *err)
{
    double us = 0;
    int rc = bench_gpu_begin(&load->gpu, err);
    if (rc == HVD_OK)
        rc = launch(load, way, err);
    if (rc == HVD_OK)
        rc = bench_gpu_end(&load->gpu, err);
    if (rc == HVD_OK)
        rc = bench_gpu_elapsed(&load->gpu, &us, err);
    *rate = moved_bytes(load, way) / (us > 0 ? us : 1e-3) / 1e3;
    return rc;
}

/* All ways in turn; the medians. [samples] has room for all rounds of all ways. */
static int measure(const struct pack_load *load, int64_t rounds, double *samples, double medians[WAYS],
                   struct hvd_error *err)
{
    for (int64_t round = -2; round < rounds; round++) /* two to warm up */
        for (int way = 0; way < WAYS; way++) {
            double rate = 0;
            int rc = measure_once(load, (enum pack_way)way, &rate, err);
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

static int check_buffer(const struct pack_load *load, float *host, struct hvd_error *err)
{
    size_t bytes = (size_t)load->elements * sizeof(float);
    memset(host, 0xff, bytes);
    int rc = failed(load, load->gpu.driver->cuMemcpyDtoHAsync(host, load->buffer, bytes, load->gpu.stream),
                    "no copy", err);
    if (rc == HVD_OK)
        rc = failed(load, load->gpu.driver->cuStreamSynchronize(load->gpu.stream), "packing", err);
    for (int64_t i = 0; i < load->elements && rc == HVD_OK; i++)
        if (host[i] != (float)(i % PERIOD))
            rc = error_set(err, HVD_ERR_SYSTEM,
                           "the GPU packed %g as element %lld, expected %g: do not trust it", (double)host[i],
                           (long long)i, (double)(i % PERIOD));
    return rc;
}

/* Known numbers go into the tensors, by bfloat16 and back, and into the buffer again. */
static int check(const struct pack_load *load, struct hvd_error *err)
{
    static const enum pack_way round_trip[] = {UNPACK, PACK_HALF, UNPACK_HALF, PACK};
    const struct cuda_driver *driver = load->gpu.driver;
    size_t bytes = (size_t)load->elements * sizeof(float);
    float *host = malloc(bytes);
    if (host == NULL)
        return error_set_errno(err, "no memory for %zu bytes", bytes);
    for (int64_t i = 0; i < load->elements; i++)
        host[i] = (float)(i % PERIOD);
    int rc =
        failed(load, driver->cuMemcpyHtoDAsync(load->buffer, host, bytes, load->gpu.stream), "no copy", err);
    for (int i = 0; i < 4 && rc == HVD_OK; i++) {
        if (round_trip[i] == PACK || round_trip[i] == PACK_HALF) /* what is not packed must be seen */
            rc = failed(load, driver->cuMemsetD8Async(load->buffer, 0xff, bytes, load->gpu.stream), "no copy",
                        err);
        if (rc == HVD_OK)
            rc = launch(load, round_trip[i], err);
    }
    if (rc == HVD_OK)
        rc = failed(load, driver->cuStreamSynchronize(load->gpu.stream), "packing", err);
    if (rc == HVD_OK)
        rc = check_buffer(load, host, err);
    free(host);
    return rc;
}

/* ---- Results -------------------------------------------------------------------------------- */

static void show_json(const struct bench_options *options, const struct pack_load *load, const char *title,
                      const double medians[WAYS])
{
    for (int way = 0; way < WAYS; way++) {
        struct json json = json_open(stdout);
        json_text(&json, "case", options->chosen->name);
        json_text(&json, "gpu", load->gpu.name);
        json_text(&json, "model", title);
        json_text(&json, "way", way_names[way]);
        json_count(&json, "tensors", load->count);
        json_count(&json, "bytes", load->elements * (int64_t)sizeof(float));
        json_count(&json, "rounds", options->rounds);
        json_text(&json, "version", hvd_version());
        if (!bench_gpu_is_double(&load->gpu)) {
            json_number(&json, "gbs", medians[way]);
            json_number(&json, "of_copy", medians[way] / medians[COPY]);
        }
        json_close_line(&json);
    }
}

static void show(const struct bench_options *options, const struct pack_load *load, const char *title,
                 const double medians[WAYS])
{
    char bytes[REPORT_TEXT_BYTES];
    printf("pack: %s, %d tensors, %s, on %s, %lld round%s; 10^9 bytes a second read and written\n", title,
           load->count, report_bytes(load->elements * (int64_t)sizeof(float), bytes), load->gpu.name,
           (long long)options->rounds, report_s(options->rounds));
    if (bench_gpu_is_double(&load->gpu))
        printf("  right in all ways; no figures, because this is no GPU\n");
    for (int way = 0; way < WAYS && !bench_gpu_is_double(&load->gpu); way++)
        printf("  %-30s  %8.1f  %5.1f %% of copy\n", way_names[way], medians[way],
               100 * medians[way] / medians[COPY]);
}

static int run_model(const struct bench_options *options, struct pack_load *load, const struct model *model,
                     struct hvd_error *err)
{
    double medians[WAYS] = {0};
    double *samples = calloc((size_t)options->rounds * WAYS, sizeof(*samples));
    int rc = samples != NULL ? load_model(load, model, err)
                             : error_set_errno(err, "no memory for %lld rounds", (long long)options->rounds);
    if (rc == HVD_OK)
        rc = check(load, err);
    if (rc == HVD_OK)
        rc = measure(load, options->rounds, samples, medians, err);
    if (rc == HVD_OK && options->json)
        show_json(options, load, model->title, medians);
    else if (rc == HVD_OK)
        show(options, load, model->title, medians);
    unload_model(load);
    free(samples);
    return rc;
}

static int run_named(const struct bench_options *options, struct pack_load *load, const char *title,
                     struct hvd_error *err)
{
    struct model model = {0};
    int rc =
        title != NULL ? model_load(&model, title, err) : model_uniform(&model, SMALL_COUNT, SMALL_BYTES, err);
    if (rc == HVD_OK && title == NULL)
        model.title = "10000 of 1 KiB";
    if (rc == HVD_OK)
        rc = run_model(options, load, &model, err);
    model_fini(&model);
    return rc;
}

int case_pack(struct bench *bench, struct hvd_error *err)
{
    static const char *const titles[] = {"resnet50", "bert-large", "gpt2", NULL /* small ones */};
    const struct bench_options *options = bench->options;
    struct pack_load load = {0};
    if (!options->gpu)
        return error_set(err, HVD_ERR_INVALID,
                         "pack measures GPUs: give --gpu; allreduce shows what packing costs a CPU");
    int rc = bench_gpu_open(&load.gpu, 0, err);
    if (rc == HVD_OK && options->model != NULL)
        rc = run_named(options, &load, options->model, err);
    for (int i = 0; i < 4 && rc == HVD_OK && options->model == NULL; i++)
        rc = run_named(options, &load, titles[i], err);
    bench_gpu_close(&load.gpu);
    return rc;
}
