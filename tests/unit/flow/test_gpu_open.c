/* test_gpu_open.c: what CUDA has of hvd when a GPU cannot be opened, and when it is still at work at the end.
 */
#define _GNU_SOURCE
#include "cuda/cuda_double.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flow/gpu.h"

static const struct hvd_config config = {.nccl_library = "none"};
static const struct hvd_log quiet = {LOG_OFF, NULL, NULL};
static const struct hvd_job job = {.size = 1};
static const struct backend_env env = {.config = &config, .log = &quiet, .job = &job, .epoll_fd = -1};

static int held(const struct cuda_driver *driver)
{
    int (*function)(void) = (int (*)(void))dlsym(driver->library, "cuDoubleHeld");
    ck_assert_ptr_nonnull(function);
    return function();
}

static const char *const failures[] = {
    "cuDevicePrimaryCtxRetain:1",   "cuCtxPushCurrent:1",           "cuThreadExchangeStreamCaptureMode:1",
    "cuStreamCreateWithPriority:1", "cuStreamCreateWithPriority:2", "cuStreamCreateWithPriority:4",
};

#define FAILURES (int)(sizeof(failures) / sizeof(failures[0]))

/* The thread has its own context and capture mode again, and CUDA has everything. The next attempt succeeds.
 */
START_TEST(a_failure_leaves_nothing_behind)
{
    struct cuda_driver *driver = cuda_double_open();
    struct hvd_error err = {""};
    struct gpu *gpu = NULL;
    CUcontext current = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    setenv("HVD_DOUBLE_CUDA_FAIL", failures[_i], 1);
    ck_assert_int_eq(gpu_create(&gpu, &env, &err), HVD_OK);
    ck_assert_int_eq(gpu_need_device(gpu, 0, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "CUDA_ERROR_LAUNCH_FAILED") != NULL, "%s", err.text);
    ck_assert_int_eq(held(driver), 0);
    ck_assert_int_eq(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ck_assert_ptr_null(current);
    ck_assert_int_eq(driver->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_msg(gpu_need_device(gpu, 0, &err) == HVD_OK, "%s", err.text);
    gpu_destroy(gpu);
    ck_assert_int_eq(held(driver), 0);
    cuda_driver_close(driver);
}
END_TEST

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
};

static void wait_at_gate(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

/* The GPU gets to the end of its work when hvd has long given it up: it writes into no file of the program.
 */
START_TEST(a_late_wake_up_writes_nowhere)
{
    struct cuda_driver *driver = cuda_double_open();
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    struct hvd_error err = {""};
    struct gpu *gpu = NULL;
    struct gpu_event *event = NULL;
    struct cuda_device device = {0};
    struct stat file = {.st_size = 0};
    int files[8];
    int mode = 0;
    ck_assert_int_eq(gpu_create(&gpu, &env, &err), HVD_OK);
    ck_assert_msg(gpu_need_device(gpu, 0, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(cuda_device_open(driver, 0, &device, &err), HVD_OK);
    ck_assert_int_eq(cuda_device_enter(&device, &mode, &err), HVD_OK);
    ck_assert_int_eq(driver->cuLaunchHostFunc(gpu_stream(gpu), wait_at_gate, &gate), CUDA_SUCCESS);
    ck_assert_int_eq(gpu_mark_own(gpu, &event, &err), HVD_OK);
    ck_assert_int_eq(gpu_notify(gpu, event, &err), HVD_OK);
    gpu_event_release(event);
    gpu_destroy(gpu);
    for (int i = 0; i < 8; i++) {
        files[i] = memfd_create("the program's", MFD_CLOEXEC);
        ck_assert_int_ge(files[i], 0);
    }
    open_gate(&gate);
    ck_assert_int_eq(driver->cuCtxSynchronize(), CUDA_SUCCESS);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(fstat(files[i], &file), 0);
        ck_assert_int_eq(file.st_size, 0);
        close(files[i]);
    }
    cuda_device_leave(&device, mode);
    cuda_device_close(&device);
    cuda_driver_close(driver);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("open");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, a_failure_leaves_nothing_behind, 0, FAILURES);
    tcase_add_test(tcase, a_late_wake_up_writes_nowhere);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("gpu_open", fill);
}
