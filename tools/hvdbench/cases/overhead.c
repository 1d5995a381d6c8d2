/* overhead.c: what hvd costs beside NCCL: the host's time from the submission of a batch until it is
 * launched, and the device's time beyond a bare ncclAllReduce of as many bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options/config.h"
#include "tools/hvdbench/bare_nccl.h"
#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/gpu_tensors.h"
#include "tools/hvdbench/report.h"

#define CHECKS 2

enum overhead_way { BARE, HVD, PACK, UNPACK, WAYS };

static const char *const way_titles[WAYS] = {"ncclAllReduce alone", "hvd", "of which packing",
                                             "and unpacking"};

/* The tensors of a batch. One tensor is reduced from its input to its output. Several are packed from their
 * inputs, reduced in the buffer, and unpacked to their outputs, unless they lie end to end in memory that
 * NCCL knows. With two types hvd has a batch of each. */
struct overhead {
    struct bench *bench;
    struct bench_gpu gpu;
    struct bare_nccl bare;
    struct gpu_tensors tensors;
    CUdeviceptr buffer;
    struct pack_plan *pack, *unpack;                /* NULL where nothing is packed */
    double *us, *launch_us[WAYS], *device_us[WAYS]; /* of each round; all lie in [us] */
};

struct overhead_result {
    double launch_us[WAYS], launch_p99_us;
    double device_us[WAYS];
};

/* ---- The batch ---------------------------------------------------------------------------------- */

static bool is_packed(const struct gpu_tensors *tensors)
{
    bool dense = gpu_tensors_extent(tensors) == gpu_tensors_bytes(tensors);
    return tensors->count > 1 && !(tensors->alloc && dense);
}

/* Bits are packed, whatever their type. */
static int make_plan(struct overhead *overhead, CUdeviceptr memory, struct pack_plan **planp,
                     struct hvd_error *err)
{
    const struct gpu_tensors *tensors = &overhead->tensors;
    struct pack_list list = {.count = (int)tensors->count, .buffer_dtype = HVD_FLOAT32};
    struct pack_piece *pieces = calloc((size_t)tensors->count, sizeof(*pieces));
    if (pieces == NULL)
        return error_set_errno(err, "no memory for %lld tensors", (long long)tensors->count);
    for (int64_t i = 0; i < tensors->count; i++)
        pieces[i] = (struct pack_piece){.tensor = (char *)memory + i * gpu_tensors_stride(tensors),
                                        .count = tensors->elements,
                                        .buffer_at = i * tensors->elements,
                                        .dtype = HVD_FLOAT32};
    list.pieces = pieces;
    int rc = pack_plan_get(overhead->gpu.kernels, &list, overhead->gpu.stream, planp, err);
    free(pieces);
    return rc;
}

static int allocate(struct overhead *overhead, struct hvd_error *err)
{
    size_t rounds = (size_t)overhead->bench->options->rounds;
    int rc = gpu_tensors_init(&overhead->tensors, err);
    if (rc == HVD_OK)
        rc = bench_gpu_check(&overhead->gpu,
                             overhead->gpu.driver->cuMemAlloc(&overhead->buffer,
                                                              (size_t)gpu_tensors_extent(&overhead->tensors)),
                             "no memory for the tensors", err);
    if (rc != HVD_OK)
        return rc;
    overhead->us = calloc(2 * WAYS * rounds, sizeof(*overhead->us));
    if (overhead->us == NULL)
        return error_set_errno(err, "no memory for %zu rounds", rounds);
    for (size_t way = 0; way < WAYS; way++) {
        overhead->launch_us[way] = overhead->us + way * rounds;
        overhead->device_us[way] = overhead->us + (WAYS + way) * rounds;
    }
    if (is_packed(&overhead->tensors))
        rc = make_plan(overhead, overhead->tensors.inputs, &overhead->pack, err);
    if (rc == HVD_OK && overhead->pack != NULL)
        rc = make_plan(overhead, overhead->tensors.outputs, &overhead->unpack, err);
    return rc;
}

static void release(struct overhead *overhead)
{
    overhead->gpu.driver->cuStreamSynchronize(overhead->gpu.stream);
    pack_plan_put(overhead->pack);
    pack_plan_put(overhead->unpack);
    if (overhead->buffer != 0)
        overhead->gpu.driver->cuMemFree(overhead->buffer);
    gpu_tensors_fini(&overhead->tensors);
    free(overhead->us);
}

/* ---- What is measured --------------------------------------------------------------------------- */

static enum hvd_op op_of(const struct overhead *overhead)
{
    return overhead->bench->options->average ? HVD_AVERAGE : HVD_SUM;
}

/* Returns when it is launched. */
static int reduce_by_hvd(const struct overhead *overhead, struct hvd_error *err)
{
    const struct gpu_tensors *tensors = &overhead->tensors;
    struct hvd_options options = HVD_OPTIONS_INIT;
    hvd_handle handle = 0;
    options.stream = overhead->gpu.stream;
    int status = hvd_grouped_allreduce_async(tensors->tensors, (int)tensors->count, op_of(overhead), &options,
                                             NULL, NULL, &handle);
    if (status == HVD_OK)
        status = hvd_wait_on_stream(handle, overhead->gpu.stream);
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_grouped_allreduce", err);
}

/* The sum of all tensors of each type, one after the other. */
static int sum_by_nccl(const struct overhead *overhead, struct hvd_error *err)
{
    static const enum hvd_dtype dtypes[] = {HVD_FLOAT32, HVD_INT32};
    const struct gpu_tensors *tensors = &overhead->tensors;
    char *input = (char *)(tensors->count == 1 ? tensors->inputs : overhead->buffer);
    char *output = (char *)(tensors->count == 1 ? tensors->outputs : overhead->buffer);
    struct bare_load load = {input, output, 0, HVD_FLOAT32};
    int rc = HVD_OK;
    for (int i = 0; i < tensors->types && rc == HVD_OK; i++) {
        int64_t bytes = load.count * (int64_t)sizeof(float); /* of the types before */
        load = (struct bare_load){input + bytes, output + bytes,
                                  gpu_tensors_of(tensors, dtypes[i]) * tensors->elements, dtypes[i]};
        rc = bare_nccl_sum(&overhead->bare, &load, overhead->gpu.stream, err);
    }
    return rc;
}

static int launch(const struct overhead *overhead, enum overhead_way way, struct hvd_error *err)
{
    void *buffer = (void *)overhead->buffer;
    switch (way) {
    case BARE:
        return sum_by_nccl(overhead, err);
    case HVD:
        return reduce_by_hvd(overhead, err);
    case PACK:
        return overhead->pack == NULL ? HVD_OK
                                      : pack_launch(overhead->pack, buffer, 1, overhead->gpu.stream, err);
    default:
        return overhead->unpack == NULL
                   ? HVD_OK
                   : unpack_launch(overhead->unpack, buffer, 1, overhead->gpu.stream, err);
    }
}

/* The device begins when all is launched, so that it does not wait for the host in between. */
static int measure_once(struct overhead *overhead, enum overhead_way way, double *launch_us,
                        double *device_us, struct hvd_error *err)
{
    struct bench_gpu *gpu = &overhead->gpu;
    int rc = hvd_barrier(HVD_ALL_RANKS);
    if (rc != HVD_OK)
        return bench_hvd_error(rc, "hvd_barrier", err);
    rc = bench_gpu_hold(gpu, err);
    if (rc == HVD_OK)
        rc = bench_gpu_begin(gpu, err);
    int64_t begin_ns = clock_ns();
    if (rc == HVD_OK)
        rc = launch(overhead, way, err);
    *launch_us = (double)(clock_ns() - begin_ns) / 1000;
    if (rc == HVD_OK)
        rc = bench_gpu_end(gpu, err);
    bench_gpu_release(gpu);
    return rc == HVD_OK ? bench_gpu_elapsed(gpu, device_us, err) : rc;
}

/* All ways in turn. The first rounds do not count. */
static int measure_all(struct overhead *overhead, struct hvd_error *err)
{
    const struct bench_options *options = overhead->bench->options;
    for (int64_t round = -options->warmup; round < options->rounds; round++)
        for (int way = 0; way < WAYS; way++) {
            double launch_us = 0;
            double device_us = 0;
            int rc = measure_once(overhead, (enum overhead_way)way, &launch_us, &device_us, err);
            if (rc != HVD_OK)
                return rc;
            if (round < 0)
                continue;
            overhead->device_us[way][round] = device_us;
            overhead->launch_us[way][round] = launch_us;
        }
    return HVD_OK;
}

/* Of the slowest rank. */
static int summarize(const struct overhead *overhead, struct overhead_result *result, struct hvd_error *err)
{
    int rounds = (int)overhead->bench->options->rounds;
    double worst[2 * WAYS + 1];
    for (int way = 0; way < WAYS; way++) {
        worst[way] = stats_of(overhead->device_us[way], rounds).median;
        worst[WAYS + way] = stats_of(overhead->launch_us[way], rounds).median;
    }
    worst[2 * WAYS] = stats_of(overhead->launch_us[HVD], rounds).p99;
    int rc = bench_max(worst, 2 * WAYS + 1, err);
    memcpy(result->device_us, worst, sizeof(result->device_us));
    memcpy(result->launch_us, worst + WAYS, sizeof(result->launch_us));
    result->launch_p99_us = worst[2 * WAYS];
    return rc;
}

/* Check the results before anything is held: NCCL and CUDA may wait for the device when they do something for
 * the first time. */
static int check_results(struct overhead *overhead, struct hvd_error *err)
{
    struct bench *bench = overhead->bench;
    int rc = bench_agree(bench, gpu_tensors_fill(&overhead->tensors, err), err);
    for (int i = 0; i < CHECKS && rc == HVD_OK; i++) {
        for (int way = 0; way < WAYS && rc == HVD_OK; way++)
            rc = launch(overhead, (enum overhead_way)way, err);
        if (rc == HVD_OK)
            rc = reduce_by_hvd(overhead, err); /* unpacking alone has written to the outputs */
        if (rc == HVD_OK)
            rc = gpu_tensors_check(&overhead->tensors, op_of(overhead) == HVD_SUM ? GPU_SUM : GPU_AVERAGE,
                                   err);
        rc = bench_agree(bench, rc, err);
    }
    return rc;
}

/* ---- Results ------------------------------------------------------------------------------------ */

/* What hvd takes beyond NCCL, packing and unpacking. */
static double added_us(const double us[WAYS])
{
    return us[HVD] - us[BARE] - us[PACK] - us[UNPACK];
}

static double of_bare(const struct overhead_result *result)
{
    return added_us(result->device_us) / result->device_us[BARE];
}

static void show_json(const struct overhead *overhead, const struct overhead_result *result)
{
    struct json json = report_open(overhead->bench);
    json_text(&json, "gpu", overhead->gpu.name);
    json_count(&json, "nccl", nccl_version(overhead->bare.nccl));
    json_count(&json, "tensors", overhead->tensors.count);
    json_count(&json, "bytes", gpu_tensors_bytes(&overhead->tensors));
    json_count(&json, "types", overhead->tensors.types);
    json_text(&json, "op", op_of(overhead) == HVD_SUM ? "sum" : "average");
    json_text(&json, "memory", overhead->tensors.alloc ? "hvd_alloc_on" : "cuMemAlloc");
    json_count(&json, "rounds", overhead->bench->options->rounds);
    if (!bench_gpu_is_double(&overhead->gpu)) {
        json_number(&json, "launch_us", result->launch_us[HVD]);
        json_number(&json, "launch_p99_us", result->launch_p99_us);
        json_number(&json, "launch_added_us", added_us(result->launch_us));
        json_number(&json, "bare_us", result->device_us[BARE]);
        json_number(&json, "hvd_us", result->device_us[HVD]);
        json_number(&json, "pack_us", result->device_us[PACK]);
        json_number(&json, "unpack_us", result->device_us[UNPACK]);
        json_number(&json, "added_us", added_us(result->device_us));
        json_number(&json, "added_of_bare", of_bare(result));
    }
    json_close_line(&json);
}

static void print_result(const struct overhead *overhead, const struct overhead_result *result)
{
    char text[2 * REPORT_TEXT_BYTES];
    char bytes[REPORT_TEXT_BYTES];
    int64_t rounds = overhead->bench->options->rounds;
    const struct gpu_tensors *tensors = &overhead->tensors;
    printf("overhead: %lld tensor%s%s%s, %s, %s, on %s, NCCL %d, %lld round%s\n", (long long)tensors->count,
           report_s(tensors->count), tensors->types > 1 ? " of two types" : "",
           tensors->alloc ? " of hvd_alloc_on" : "", report_bytes(gpu_tensors_bytes(tensors), bytes),
           report_ranks(overhead->bench, text), overhead->gpu.name, nccl_version(overhead->bare.nccl),
           (long long)rounds, report_s(rounds));
    if (bench_gpu_is_double(&overhead->gpu)) {
        printf("  right; no figures, because this is no GPU\n");
        return;
    }
    printf("  the host, from submission until launched   %s, p99 ",
           report_time(result->launch_us[HVD], text));
    printf("%s\n", report_time(result->launch_p99_us, text));
    for (int way = 0; way < WAYS; way++)
        printf("  the device, %-29s  %s\n", way_titles[way], report_time(result->device_us[way], text));
    printf("  hvd adds %s on the host beyond the launches of NCCL, packing and unpacking\n",
           report_time(added_us(result->launch_us), text));
    printf("  hvd adds %s on the device beyond NCCL, packing and unpacking",
           report_time(added_us(result->device_us), text));
    if (isfinite(of_bare(result)))
        printf(", %.1f %% of ncclAllReduce", 100 * of_bare(result));
    putchar('\n');
}

/* ---- The case ----------------------------------------------------------------------------------- */

/* More than that would be several batches. */
static int check_tensors(const struct overhead *overhead, const struct hvd_config *config,
                         struct hvd_error *err)
{
    const struct gpu_tensors *tensors = &overhead->tensors;
    char fusion[32];
    if (tensors->types > tensors->count)
        return error_set(err, HVD_ERR_INVALID, "--types=2 needs two tensors; give --tensors as well");
    if (tensors->types > 1 && overhead->bench->options->average)
        return error_set(err, HVD_ERR_INVALID,
                         "--types=2 adds integers, of which NCCL has no averages; leave --average out");
    if (tensors->count == 1 || gpu_tensors_bytes(tensors) <= config->fusion_bytes)
        return HVD_OK;
    config_value(config, OPTION_OF(fusion_bytes), fusion, sizeof(fusion));
    return error_set(err, HVD_ERR_INVALID,
                     "%lld tensors of %lld bytes are more than one batch, which has at most --hvd-fusion=%s",
                     (long long)tensors->count, (long long)overhead->bench->options->bytes, fusion);
}

static int run(struct overhead *overhead, struct hvd_error *err)
{
    struct overhead_result result = {.launch_p99_us = 0};
    int rc = bench_agree(overhead->bench, allocate(overhead, err), err);
    if (rc == HVD_OK)
        rc = check_results(overhead, err);
    if (rc == HVD_OK)
        rc = measure_all(overhead, err);
    if (rc == HVD_OK)
        rc = summarize(overhead, &result, err);
    if (rc == HVD_OK && overhead->bench->rank == 0 && overhead->bench->options->json)
        show_json(overhead, &result);
    else if (rc == HVD_OK && overhead->bench->rank == 0)
        print_result(overhead, &result);
    release(overhead);
    return rc;
}

int case_overhead(struct bench *bench, struct hvd_error *err)
{
    extern char **environ;
    const struct bench_options *options = bench->options;
    struct overhead overhead = {.bench = bench,
                                .tensors = {.bench = bench,
                                            .gpu = &overhead.gpu,
                                            .count = options->tensors,
                                            .elements = options->bytes / (int64_t)sizeof(float),
                                            .types = options->types,
                                            .alloc = options->alloc}};
    struct hvd_config config;
    int rc = HVD_OK;
    if (!options->gpu)
        rc = error_set(err, HVD_ERR_INVALID,
                       "overhead measures GPUs: give --gpu; small and latency measure CPUs");
    if (rc == HVD_OK)
        rc = config_load(&config, environ, NULL, err);
    if (rc == HVD_OK)
        rc = check_tensors(&overhead, &config, err);
    if (rc == HVD_OK)
        rc = bench_gpu_open(&overhead.gpu, gpu_of_rank(), err);
    rc = bench_agree(bench, rc, err);
    if (rc == HVD_OK)
        rc = bare_nccl_open(&overhead.bare, bench, config.nccl_library, err);
    if (rc == HVD_OK)
        rc = run(&overhead, err);
    bare_nccl_close(&overhead.bare);
    bench_gpu_close(&overhead.gpu);
    return rc;
}
