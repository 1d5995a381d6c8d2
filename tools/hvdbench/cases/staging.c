/* staging.c: tensors on GPUs that go through host memory, beside plain copies of the same bytes and beside
 * the operation in host memory alone. */
#include <stdlib.h>
#include <string.h>

#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/gpu_tensors.h"
#include "tools/hvdbench/report.h"

enum staging_way { STAGED, COPIES, IN_HOST, WAYS };

/* The copies: the inputs to the host, and at the same time as many bytes to the outputs. */
struct staging {
    struct bench *bench;
    struct bench_gpu gpu;
    struct gpu_tensors tensors;
    CUstream back;
    char *from_gpu, *to_gpu; /* pinned */
    void *host;              /* of hvd_alloc */
    struct hvd_tensor in_host;
    struct way ways[WAYS];
};

static bool broadcasts(const struct staging *staging)
{
    return staging->bench->options->collective == BENCH_BROADCAST;
}

static bool sends(const struct staging *staging)
{
    return !broadcasts(staging) || staging->bench->rank == 0;
}

static bool receives(const struct staging *staging)
{
    return !broadcasts(staging) || staging->bench->rank != 0;
}

/* ---- The ways ----------------------------------------------------------------------------------- */

static int carry(const struct staging *staging, const struct hvd_tensor *tensor, struct hvd_error *err)
{
    int status = broadcasts(staging) ? hvd_broadcast(tensor, 0, NULL) : hvd_allreduce(tensor, HVD_SUM, NULL);
    return status == HVD_OK
               ? HVD_OK
               : bench_hvd_error(status, broadcasts(staging) ? "hvd_broadcast" : "hvd_allreduce", err);
}

static int run_staged(void *arg, struct hvd_error *err)
{
    const struct staging *staging = arg;
    return carry(staging, staging->tensors.tensors, err);
}

static int check_staged(void *arg, struct hvd_error *err)
{
    const struct staging *staging = arg;
    return gpu_tensors_check(&staging->tensors, broadcasts(staging) ? GPU_OF_RANK_0 : GPU_SUM, err);
}

static int run_copies(void *arg, struct hvd_error *err)
{
    const struct staging *staging = arg;
    const struct cuda_driver *driver = staging->gpu.driver;
    size_t bytes = (size_t)gpu_tensors_bytes(&staging->tensors);
    CUresult result = CUDA_SUCCESS;
    if (sends(staging))
        result =
            driver->cuMemcpyDtoHAsync(staging->from_gpu, staging->tensors.inputs, bytes, staging->gpu.stream);
    if (result == CUDA_SUCCESS && receives(staging))
        result = driver->cuMemcpyHtoDAsync(staging->tensors.outputs, staging->to_gpu, bytes, staging->back);
    if (result == CUDA_SUCCESS)
        result = driver->cuStreamSynchronize(staging->gpu.stream);
    if (result == CUDA_SUCCESS)
        result = driver->cuStreamSynchronize(staging->back);
    return bench_gpu_check(&staging->gpu, result, "no copy", err);
}

static int run_in_host(void *arg, struct hvd_error *err)
{
    const struct staging *staging = arg;
    return carry(staging, &staging->in_host, err);
}

static const struct way way_table[WAYS] = {
    [STAGED] = {.name = "hvd",
                .title = "the operation on tensors of the GPU",
                .key = "hvd_us",
                .run = run_staged,
                .check = check_staged},
    [COPIES] = {.name = "copies",
                .title = "the same bytes to the host and back, at the same time",
                .key = "copies_us",
                .run = run_copies},
    [IN_HOST] = {.name = "host",
                 .title = "the operation on host memory",
                 .key = "host_us",
                 .run = run_in_host},
};

/* ---- Memory ------------------------------------------------------------------------------------- */

static int pin(const struct staging *staging, char **memory, struct hvd_error *err)
{
    void *pinned = NULL;
    size_t bytes = (size_t)gpu_tensors_bytes(&staging->tensors);
    int rc = bench_gpu_check(&staging->gpu, staging->gpu.driver->cuMemHostAlloc(&pinned, bytes, 0),
                             "no memory is pinned", err);
    if (rc == HVD_OK)
        memset(pinned, 0, bytes);
    *memory = pinned;
    return rc;
}

static int allocate_host(struct staging *staging, struct hvd_error *err)
{
    int64_t bytes = gpu_tensors_bytes(&staging->tensors);
    int status = hvd_alloc(bytes, &staging->host);
    if (status != HVD_OK)
        return bench_hvd_error(status, "hvd_alloc", err);
    memset(staging->host, 0, (size_t)bytes);
    staging->in_host = hvd_vector("host", staging->host, staging->tensors.elements, HVD_FLOAT32);
    return HVD_OK;
}

static int allocate(struct staging *staging, struct hvd_error *err)
{
    const struct cuda_driver *driver = staging->gpu.driver;
    int rc = gpu_tensors_init(&staging->tensors, err);
    if (rc == HVD_OK)
        rc = gpu_tensors_fill(&staging->tensors, err);
    if (rc == HVD_OK)
        rc = pin(staging, &staging->from_gpu, err);
    if (rc == HVD_OK)
        rc = pin(staging, &staging->to_gpu, err);
    if (rc == HVD_OK)
        rc = bench_gpu_check(&staging->gpu,
                             driver->cuStreamCreateWithPriority(&staging->back, CU_STREAM_NON_BLOCKING, 0),
                             "no stream", err);
    return rc == HVD_OK ? allocate_host(staging, err) : rc;
}

static void release(struct staging *staging)
{
    const struct cuda_driver *driver = staging->gpu.driver;
    gpu_tensors_fini(&staging->tensors);
    if (staging->from_gpu != NULL)
        driver->cuMemFreeHost(staging->from_gpu);
    if (staging->to_gpu != NULL)
        driver->cuMemFreeHost(staging->to_gpu);
    if (staging->back != NULL)
        driver->cuStreamDestroy(staging->back);
    hvd_free(staging->host);
}

/* ---- Results ------------------------------------------------------------------------------------ */

/* The rate of hvd as a part of what the slower of its two halves reaches alone. */
static double of_slower(const struct staging *staging)
{
    double copies_us = staging->ways[COPIES].us.median;
    double host_us = staging->ways[IN_HOST].us.median;
    return (copies_us > host_us ? copies_us : host_us) / staging->ways[STAGED].us.median;
}

static void show_json(const struct staging *staging)
{
    const struct bench_options *options = staging->bench->options;
    struct json json = report_open(staging->bench);
    json_text(&json, "gpu", staging->gpu.name);
    json_text(&json, "collective", broadcasts(staging) ? "broadcast" : "allreduce");
    json_count(&json, "bytes", options->bytes);
    json_count(&json, "rounds", options->rounds);
    for (int way = 0; way < WAYS && !bench_gpu_is_double(&staging->gpu); way++)
        json_number(&json, staging->ways[way].key, staging->ways[way].us.median);
    if (!bench_gpu_is_double(&staging->gpu))
        json_number(&json, "of_slower", of_slower(staging));
    json_close_line(&json);
}

static void show(const struct staging *staging)
{
    char text[2 * REPORT_TEXT_BYTES];
    char bytes[REPORT_TEXT_BYTES];
    const struct bench_options *options = staging->bench->options;
    printf("staging: %s of %s, %s, on %s, %lld round%s\n", broadcasts(staging) ? "broadcast" : "allreduce",
           report_bytes(options->bytes, bytes), report_ranks(staging->bench, text), staging->gpu.name,
           (long long)options->rounds, report_s(options->rounds));
    if (bench_gpu_is_double(&staging->gpu)) {
        printf("  right; no figures, because this is no GPU\n");
        return;
    }
    for (int way = 0; way < WAYS; way++)
        printf("  %-7s %12s  %7.2f GB/s  %s\n", staging->ways[way].name,
               report_time(staging->ways[way].us.median, text),
               (double)options->bytes / staging->ways[way].us.median / 1000, staging->ways[way].title);
    printf("  hvd reaches %.0f %% of the slower of copies and host\n", 100 * of_slower(staging));
}

/* ---- The case ----------------------------------------------------------------------------------- */

static int run(struct staging *staging, struct hvd_error *err)
{
    struct bench *bench = staging->bench;
    const struct turns turns = {bench->options->warmup, bench->options->rounds, 1};
    int rc = bench_agree(bench, allocate(staging, err), err);
    turns_bind(staging->ways, way_table, WAYS, staging);
    if (rc == HVD_OK)
        rc = turns_measure(bench, &turns, staging->ways, WAYS, err);
    if (rc == HVD_OK && bench->rank == 0 && bench->options->json)
        show_json(staging);
    else if (rc == HVD_OK && bench->rank == 0)
        show(staging);
    release(staging);
    return rc;
}

int case_staging(struct bench *bench, struct hvd_error *err)
{
    struct staging staging = {.bench = bench,
                              .tensors = {.bench = bench,
                                          .gpu = &staging.gpu,
                                          .count = 1,
                                          .elements = bench->options->bytes / (int64_t)sizeof(float),
                                          .types = 1}};
    int rc = bench_agree(bench, bench_gpu_open(&staging.gpu, gpu_of_rank(), err), err);
    if (rc == HVD_OK)
        rc = run(&staging, err);
    bench_gpu_close(&staging.gpu);
    return rc;
}
