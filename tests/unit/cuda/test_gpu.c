/* test_gpu.c: what the kernel makes of tensors on a device, compared with the CPU; on the double of a GPU,
 * and with HVD_CHECK_GPU=1 on a real one, as tests/gpu/gpu-check does. */
#include "cuda_double.h"

#include <string.h>

#include "pack_samples.h"

/* One device for all cases, which run in this process: CUDA does not survive a fork. */
static struct cuda_driver *driver;
static struct cuda_device device;
static struct pack_kernels *kernels;
static CUstream stream;
static int capture_mode;

static void ok(CUresult result)
{
    struct hvd_error err = {""};
    if (result != CUDA_SUCCESS) {
        cuda_error(driver, result, &err, "a call of the test");
        ck_abort_msg("%s", err.text);
    }
}

static void ok_or(int rc, const struct hvd_error *err)
{
    ck_assert_msg(rc == HVD_OK, "%s", err->text);
}

/* ---- Samples on the device ------------------------------------------------------------------ */

/* Memory of the device with the same bytes; like [host], it begins at a multiple of 64. */
static CUdeviceptr upload(const void *host, size_t bytes)
{
    CUdeviceptr memory = 0;
    ok(driver->cuMemAlloc(&memory, bytes));
    ok(driver->cuMemcpyHtoDAsync(memory, host, bytes, stream));
    return memory;
}

static void download(void *host, CUdeviceptr memory, size_t bytes)
{
    ok(driver->cuMemcpyDtoHAsync(host, memory, bytes, stream));
    ok(driver->cuStreamSynchronize(stream));
    ok(driver->cuMemFree(memory));
}

static void run_sample(struct sample *sample, bool unpack)
{
    struct pack_piece pieces[PIECES_MAX];
    CUdeviceptr memory[PIECES_MAX];
    struct pack_plan *plan = NULL;
    struct hvd_error err = {""};
    CUdeviceptr buffer = upload(sample->buffer, sample->buffer_bytes);
    for (int i = 0; i < sample->count; i++) {
        const struct pack_piece *piece = &sample->pieces[i];
        memory[i] = upload(sample->memory[i], sample->memory_bytes[i]);
        pieces[i] = *piece;
        if (piece->tensor != NULL)
            pieces[i].tensor = (char *)memory[i] + ((char *)piece->tensor - sample->memory[i]);
    }
    const struct pack_list list = {pieces, sample->count, sample->buffer_dtype};
    ok_or(pack_plan_get(kernels, &list, stream, &plan, &err), &err);
    ok_or(unpack ? unpack_launch(plan, (char *)buffer + SLACK, sample->scale, stream, &err)
                 : pack_launch(plan, (char *)buffer + SLACK, sample->scale, stream, &err),
          &err);
    for (int i = 0; i < sample->count; i++)
        download(sample->memory[i], memory[i], sample->memory_bytes[i]);
    download(sample->buffer, buffer, sample->buffer_bytes);
    pack_plan_put(plan);
}

START_TEST(packs_like_the_cpu)
{
    check_pack((uint64_t)_i, run_sample);
}
END_TEST

START_TEST(unpacks_like_the_cpu)
{
    check_unpack((uint64_t)_i, run_sample);
}
END_TEST

START_TEST(converts_every_half)
{
    check_every_half(_i == 0 ? HVD_FLOAT16 : HVD_BFLOAT16, run_sample);
}
END_TEST

/* More tiles than run at the same time, and pieces of many tiles. */
START_TEST(packs_a_large_batch)
{
    enum { COUNT = 2000 };
    static struct pack_piece pieces[COUNT];
    struct hvd_error err = {""};
    struct pack_plan *plan = NULL;
    int64_t total = 0;
    for (int i = 0; i < COUNT; i++) {
        pieces[i] = (struct pack_piece){
            .count = i % 100 == 7 ? 50000 : i % 61, .buffer_at = total, .dtype = HVD_INT32};
        total += pieces[i].count;
    }
    size_t bytes = (size_t)total * sizeof(int32_t);
    int32_t *from = allocated(bytes);
    int32_t *to = allocated(bytes);
    for (int64_t i = 0; i < total; i++)
        from[i] = (int32_t)(i * 7919);
    memset(to, 0, bytes);
    CUdeviceptr tensors = upload(from, bytes);
    CUdeviceptr buffer = upload(to, bytes);
    for (int i = 0; i < COUNT; i++) /* back to front */
        pieces[i].tensor = (int32_t *)tensors + (total - pieces[i].buffer_at - pieces[i].count);
    const struct pack_list list = {pieces, COUNT, HVD_INT32};
    ok_or(pack_plan_get(kernels, &list, stream, &plan, &err), &err);
    ok_or(pack_launch(plan, (void *)buffer, 1, stream, &err), &err);
    download(to, buffer, bytes);
    download(from, tensors, bytes);
    for (int i = 0; i < COUNT; i++)
        for (int64_t k = 0; k < pieces[i].count; k++)
            ck_assert_int_eq(to[pieces[i].buffer_at + k],
                             from[total - pieces[i].buffer_at - pieces[i].count + k]);
    pack_plan_put(plan);
    free(from);
    free(to);
}
END_TEST

START_TEST(runs_in_a_graph)
{
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    struct pack_plan *plan = NULL;
    struct hvd_error err = {""};
    float values[100], found[100];
    for (int i = 0; i < 100; i++)
        values[i] = (float)i;
    CUdeviceptr tensor = upload(values, sizeof(values));
    CUdeviceptr buffer = upload(values, sizeof(values));
    struct pack_piece piece = {.tensor = (void *)tensor, .count = 100, .dtype = HVD_FLOAT32};
    ok_or(pack_plan_get(kernels, &(struct pack_list){&piece, 1, HVD_FLOAT32}, stream, &plan, &err), &err);
    ok(driver->cuStreamSynchronize(stream));
    ok(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok_or(pack_launch(plan, (void *)buffer, 2, stream, &err), &err);
    ok_or(unpack_launch(plan, (void *)buffer, 1, stream, &err), &err);
    ok(driver->cuStreamEndCapture(stream, &graph));
    ok(driver->cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < 3; i++)
        ok(driver->cuGraphLaunch(executable, stream));
    download(found, buffer, sizeof(found));
    for (int i = 0; i < 100; i++)
        ck_assert_float_eq(found[i], (float)(8 * i));
    ok(driver->cuGraphExecDestroy(executable));
    ok(driver->cuGraphDestroy(graph));
    ok(driver->cuMemFree(tensor));
    pack_plan_put(plan);
}
END_TEST

static int begin(bool real, struct hvd_error *err)
{
    int rc = cuda_driver_open(real ? NULL : cuda_double_path(), &driver, err);
    if (rc == HVD_OK)
        rc = cuda_device_open(driver, 0, &device, err);
    if (rc == HVD_OK)
        rc = cuda_device_enter(&device, &capture_mode, err);
    if (rc == HVD_OK)
        rc = pack_kernels_load(&device, &kernels, err);
    if (rc == HVD_OK &&
        driver->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
        rc = error_set(err, HVD_ERR_SYSTEM, "GPU 0 has no stream");
    return rc;
}

static void end(void)
{
    pack_kernels_unload(kernels);
    driver->cuStreamDestroy(stream);
    cuda_device_leave(&device, capture_mode);
    cuda_device_close(&device);
    cuda_driver_close(driver);
}

int main(void)
{
    const char *chosen = getenv("HVD_CHECK_GPU");
    bool real = chosen != NULL && strcmp(chosen, "1") == 0;
    struct hvd_error err = {""};
    int rc = begin(real, &err);
    if (rc == HVD_ERR_UNSUPPORTED && real) {
        printf("1..0 # SKIP %s\n", err.text);
        return EXIT_SUCCESS;
    }
    if (rc != HVD_OK) {
        printf("Bail out! %s\n", err.text);
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("gpu");
    TCase *tcase = tcase_create("gpu");
    tcase_add_loop_test(tcase, packs_like_the_cpu, 0, real ? 500 : 60);
    tcase_add_loop_test(tcase, unpacks_like_the_cpu, 0, real ? 500 : 60);
    tcase_add_loop_test(tcase, converts_every_half, 0, 2);
    tcase_add_test(tcase, packs_a_large_batch);
    tcase_add_test(tcase, runs_in_a_graph);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    end();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
