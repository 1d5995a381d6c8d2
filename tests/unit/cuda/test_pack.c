/* test_pack.c: plans: what is sent to the device and when, what is remembered, and what is left after a
 * failure. */
#include "cuda_double.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/pack.h"
#include "cuda/pack_image.h"
#include "elements.h"

#define COUNT  5
#define LENGTH 1000

/* A device with tensors and a buffer. */
struct world {
    struct cuda_driver *driver;
    struct cuda_device device;
    int mode;
    CUstream stream;
    CUdeviceptr memory;
    struct pack_kernels *kernels;
    struct pack_piece pieces[COUNT];
    float *buffer;
};

static struct hvd_error err;

static void ok(int result)
{
    ck_assert_msg(result == 0, "%d: %s", result, err.text);
}

/* With [space] more elements between the tensors. */
static void place_tensors(struct world *world, int space)
{
    for (int i = 0; i < COUNT; i++)
        world->pieces[i] = (struct pack_piece){.tensor = (float *)world->memory + (LENGTH + space) * i,
                                               .count = LENGTH - i,
                                               .buffer_at = LENGTH * i,
                                               .dtype = HVD_FLOAT32};
}

static void world_open(struct world *world)
{
    setenv("HVD_DOUBLE_CUDA_PROTECT", "0", 1); /* this test fills and reads the device's memory itself */
    world->driver = cuda_double_open();
    ok(cuda_device_open(world->driver, 1, &world->device, &err));
    ok(cuda_device_enter(&world->device, &world->mode, &err));
    ok((int)world->driver->cuStreamCreateWithPriority(&world->stream, CU_STREAM_NON_BLOCKING, 0));
    ok((int)world->driver->cuMemAlloc(&world->memory, (size_t)1 << 20));
    world->buffer = (float *)world->memory + (1 << 17);
    place_tensors(world, 0);
}

static void world_close(struct world *world)
{
    pack_kernels_unload(world->kernels);
    world->driver->cuMemFree(world->memory);
    world->driver->cuStreamDestroy(world->stream);
    cuda_device_leave(&world->device, world->mode);
    cuda_device_close(&world->device);
    cuda_driver_close(world->driver);
}

static int get_plan(struct world *world, struct pack_plan **planp)
{
    const struct pack_list list = {world->pieces, COUNT, HVD_FLOAT32};
    return pack_plan_get(world->kernels, &list, world->stream, planp, &err);
}

/* Pack, double and unpack, and look at the tensors when the stream is done. */
static void assert_doubles(struct world *world, const struct pack_plan *plan)
{
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < world->pieces[i].count; k++)
            ((float *)world->pieces[i].tensor)[k] = (float)(i * 10000 + k);
    ok(pack_launch(plan, world->buffer, 0.5, world->stream, &err));
    ok(unpack_launch(plan, world->buffer, 4, world->stream, &err));
    ok((int)world->driver->cuStreamSynchronize(world->stream));
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < world->pieces[i].count; k++)
            ck_assert_float_eq(((float *)world->pieces[i].tensor)[k], (float)(2 * (i * 10000 + k)));
}

/* Late streams: nothing that they need may be gone when a call returns. */
START_TEST(packs_behind_the_program)
{
    struct world world = {0};
    setenv("HVD_DOUBLE_CUDA_DELAY_US", "2000", 1);
    world_open(&world);
    struct pack_plan *plan = NULL;
    ok(pack_kernels_load(&world.device, &world.kernels, &err));
    ok(get_plan(&world, &plan));
    struct pack_piece kept[COUNT];
    memcpy(kept, world.pieces, sizeof(kept));
    memset(world.pieces, 0, sizeof(world.pieces)); /* they may go when the call returns */
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < kept[i].count; k++)
            ((float *)kept[i].tensor)[k] = (float)k;
    ok(pack_launch(plan, world.buffer, 1, world.stream, &err));
    ck_assert_int_eq(world.driver->cuStreamQuery(world.stream), CUDA_ERROR_NOT_READY); /* no waiting */
    ok((int)world.driver->cuStreamSynchronize(world.stream));
    for (int i = 0; i < COUNT; i++)
        ck_assert_mem_eq(world.buffer + kept[i].buffer_at, kept[i].tensor,
                         (size_t)kept[i].count * sizeof(float));
    pack_plan_put(plan);
    world_close(&world);
}
END_TEST

/* The second time no table is made, and nothing is sent: every call that could is made to fail. */
START_TEST(remembers_plans)
{
    struct world world = {0};
    struct pack_plan *first = NULL, *second = NULL, *other = NULL;
    world_open(&world);
    ok(pack_kernels_load(&world.device, &world.kernels, &err));
    ok(get_plan(&world, &first));
    ok((int)world.driver->cuStreamSynchronize(world.stream)); /* the stream's thread reads the variable */
    setenv("HVD_DOUBLE_CUDA_FAIL", "cuMemAlloc:1:2,cuMemHostAlloc:1:2,cuMemcpyHtoDAsync:1:1", 1);
    ok(get_plan(&world, &second));
    ck_assert_ptr_eq(first, second);
    pack_plan_put(first);
    pack_plan_put(second);
    ok(get_plan(&world, &second));
    ck_assert_ptr_eq(first, second);
    assert_doubles(&world, second);
    unsetenv("HVD_DOUBLE_CUDA_FAIL");
    place_tensors(&world, 7); /* the same sizes elsewhere */
    ok(get_plan(&world, &other));
    ck_assert_ptr_ne(other, first);
    assert_doubles(&world, other);
    pack_plan_put(other);
    pack_plan_put(second);
    pack_plan_put(NULL);
    world_close(&world);
}
END_TEST

/* Forgotten plans' memory is used again: no allocation once there is enough, which would wait for the device.
 */
START_TEST(forgets_plans_and_uses_their_memory)
{
    struct world world = {0};
    world_open(&world);
    ok(pack_kernels_load(&world.device, &world.kernels, &err));
    for (int i = 0; i < 600; i++) {
        struct pack_plan *plan = NULL;
        if (i == 300)
            setenv("HVD_DOUBLE_CUDA_FAIL", "cuMemAlloc:1:2,cuMemHostAlloc:1:2,cuMemFree:1:1", 1);
        place_tensors(&world, i);
        ok(get_plan(&world, &plan));
        if (i % 100 == 0)
            assert_doubles(&world, plan);
        ok((int)world.driver->cuStreamSynchronize(world.stream));
        pack_plan_put(plan);
    }
    unsetenv("HVD_DOUBLE_CUDA_FAIL");
    world_close(&world);
}
END_TEST

START_TEST(packs_nothing)
{
    struct world world = {0};
    struct pack_plan *plan = NULL;
    world_open(&world);
    ok(pack_kernels_load(&world.device, &world.kernels, &err));
    ok(pack_plan_get(world.kernels, &(struct pack_list){NULL, 0, HVD_INT32}, world.stream, &plan, &err));
    ok(pack_launch(plan, NULL, 1, world.stream, &err));
    pack_plan_put(plan);
    world_close(&world);
}
END_TEST

START_TEST(is_captured_in_a_graph)
{
    struct world world = {0};
    struct pack_plan *plan = NULL;
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    world_open(&world);
    ok(pack_kernels_load(&world.device, &world.kernels, &err));
    ok(get_plan(&world, &plan));
    ok((int)world.driver->cuStreamSynchronize(world.stream));
    memset((void *)world.memory, 0, (size_t)1 << 20);
    ok((int)world.driver->cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(pack_launch(plan, world.buffer, 1, world.stream, &err));
    ok((int)world.driver->cuStreamEndCapture(world.stream, &graph));
    ok((int)world.driver->cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int launch = 1; launch < 4; launch++) {
        ((float *)world.pieces[2].tensor)[3] = (float)launch;
        ok((int)world.driver->cuGraphLaunch(executable, world.stream));
        ok((int)world.driver->cuStreamSynchronize(world.stream));
        ck_assert_float_eq(world.buffer[world.pieces[2].buffer_at + 3], (float)launch);
    }
    ok((int)world.driver->cuGraphExecDestroy(executable));
    ok((int)world.driver->cuGraphDestroy(graph));
    pack_plan_put(plan);
    world_close(&world);
}
END_TEST

/* ---- Failures ------------------------------------------------------------------------------- */

struct failure {
    const char *fail, *words;
    int status;
};

static const struct failure failures[] = {
    {"cuModuleLoadData:1:222", "update the driver", HVD_ERR_SYSTEM},
    {"cuModuleGetFunction:1:500", "does not load hvd's kernels", HVD_ERR_SYSTEM},
    {"cuDeviceGetAttribute:1:101", "does not load hvd's kernels", HVD_ERR_SYSTEM},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor:1:1", "does not load hvd's kernels", HVD_ERR_SYSTEM},
    {"cuMemHostAlloc:1:2", "GPU 1 has no memory for a table of", HVD_ERR_NO_MEMORY},
    {"cuMemAlloc:2:2", "GPU 1 has no memory for a table of", HVD_ERR_NO_MEMORY},
    {"cuMemcpyHtoDAsync:1:1", "GPU 1 takes no table of", HVD_ERR_SYSTEM},
    {"cuLaunchKernel:1:719", "GPU 1 cannot pack 5 tensors", HVD_ERR_SYSTEM},
    {"cuLaunchKernel:2:719", "GPU 1 cannot unpack 5 tensors", HVD_ERR_SYSTEM}};

#define FAILURES (int)(sizeof(failures) / sizeof(failures[0]))
#define LOADING  4 /* of them */

/* A build without nvcc says that first. */
static const struct failure *expected_failure(const struct failure *failure)
{
    bool loads = failure < failures + LOADING;
    static const struct failure no_kernels = {
        NULL, "GPU 1 cannot pack tensors: hvd was built without kernels", HVD_ERR_UNSUPPORTED};
    return loads && pack_image[0] == '.' ? &no_kernels : failure;
}

/* Load, plan, pack and unpack; the first error. */
static int use(struct world *world)
{
    struct pack_plan *plan = NULL;
    int rc = pack_kernels_load(&world->device, &world->kernels, &err);
    if (rc == HVD_OK)
        rc = get_plan(world, &plan);
    if (rc == HVD_OK)
        rc = pack_launch(plan, world->buffer, 1, world->stream, &err);
    if (rc == HVD_OK)
        rc = unpack_launch(plan, world->buffer, 1, world->stream, &err);
    pack_plan_put(plan);
    return rc;
}

/* In a process of its own, whose report of what it did not give back is read when it has ended. */
START_TEST(leaves_nothing_after_a_failure)
{
    char report[] = "/tmp/hvd-double-report-XXXXXX";
    char line[300] = "";
    int status = -1;
    int descriptor = mkstemp(report);
    ck_assert_int_ge(descriptor, 0);
    close(descriptor);
    pid_t child = fork();
    if (child == 0) {
        struct world world = {0};
        setenv("HVD_DOUBLE_REPORT", report, 1);
        if (_i < FAILURES)
            setenv("HVD_DOUBLE_CUDA_FAIL", failures[_i].fail, 1);
        world_open(&world);
        int rc = use(&world);
        bool as_expected = rc == HVD_OK;
        if (_i < FAILURES) {
            const struct failure *expected = expected_failure(&failures[_i]);
            as_expected = rc == expected->status && strstr(err.text, expected->words) != NULL;
        }
        if (!as_expected)
            fprintf(stderr, "%d: %s\n", rc, err.text);
        world_close(&world);
        exit(as_expected ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    FILE *file = fopen(report, "re");
    ck_assert_ptr_nonnull(file);
    bool reported = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    unlink(report);
    ck_assert_msg(!reported, "%s", line);
    ck_assert_int_eq(status, 0);
}
END_TEST

static void fill_suite(Suite *suite)
{
    TCase *tcase = tcase_create("pack");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, packs_behind_the_program);
    tcase_add_test(tcase, remembers_plans);
    tcase_add_test(tcase, forgets_plans_and_uses_their_memory);
    tcase_add_test(tcase, packs_nothing);
    tcase_add_test(tcase, is_captured_in_a_graph);
    tcase_add_loop_test(tcase, leaves_nothing_after_a_failure, 0, FAILURES + 1);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("pack", fill_suite);
}
