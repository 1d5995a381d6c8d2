/* test_driver.c: CUDA's library is found or refused with a sentence that says why; its devices, and which
 * memory a pointer is of. */
#include "cuda_double.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "cuda/pointer_device.h"

static void assert_refused(const char *library, int status, const char *words)
{
    struct cuda_driver *driver = (struct cuda_driver *)&status;
    struct hvd_error err = {""};
    ck_assert_int_eq(cuda_driver_open(library, &driver, &err), status);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
    ck_assert_ptr_eq(driver, (struct cuda_driver *)&status);
}

START_TEST(refuses_a_library_that_is_not_there)
{
    assert_refused("/nowhere/libcuda.so.1", HVD_ERR_UNSUPPORTED, "/nowhere/libcuda.so.1");
}
END_TEST

START_TEST(refuses_a_library_without_its_functions)
{
    assert_refused("libm.so.6", HVD_ERR_UNSUPPORTED, "no function cu");
}
END_TEST

START_TEST(refuses_an_old_driver)
{
    setenv("HVD_DOUBLE_CUDA_VERSION", "11020", 1);
    assert_refused(cuda_double_path(), HVD_ERR_UNSUPPORTED, "CUDA 11.2: hvd needs 11.8");
}
END_TEST

START_TEST(refuses_a_machine_without_devices)
{
    setenv("HVD_DOUBLE_CUDA_DEVICES", "0", 1);
    assert_refused(cuda_double_path(), HVD_ERR_UNSUPPORTED, "CUDA_VISIBLE_DEVICES");
}
END_TEST

/* Each call of the start. */
START_TEST(says_which_error_the_driver_had)
{
    static const struct {
        const char *fail, *words;
        int status;
    } cases[] = {{"cuInit:1:100", "CUDA_ERROR_NO_DEVICE (100)", HVD_ERR_UNSUPPORTED},
                 {"cuInit:1:34", "folder stubs", HVD_ERR_SYSTEM},
                 {"cuInit:1:3", "spawn", HVD_ERR_SYSTEM},
                 {"cuInit:1:803", "administrator", HVD_ERR_SYSTEM},
                 {"cuInit:1:12345", "unknown error (12345)", HVD_ERR_SYSTEM},
                 {"cuDeviceGetCount:1:2", "out of memory", HVD_ERR_NO_MEMORY}};
    setenv("HVD_DOUBLE_CUDA_FAIL", cases[_i].fail, 1);
    assert_refused(cuda_double_path(), cases[_i].status, cases[_i].words);
}
END_TEST

START_TEST(sees_whether_the_process_has_it)
{
    ck_assert(!cuda_driver_loaded(cuda_double_path()));
    struct cuda_driver *driver = cuda_double_open();
    ck_assert(cuda_driver_loaded(cuda_double_path()));
    ck_assert(cuda_driver_loaded(NULL)); /* by its name */
    ck_assert_ptr_nonnull(driver->cuStreamWaitValue32);
    cuda_driver_close(driver);
    cuda_driver_close(NULL);
    ck_assert(cuda_driver_loaded(NULL)); /* never unloaded */
}
END_TEST

START_TEST(enters_and_leaves_a_device)
{
    struct cuda_device devices[2];
    struct hvd_error err;
    CUcontext current = NULL;
    int modes[2] = {-1, -1};
    setenv("HVD_DOUBLE_CUDA_DEVICES", "2", 1);
    struct cuda_driver *driver = cuda_double_open();
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cuda_device_open(driver, i, &devices[i], &err), HVD_OK);
    ck_assert_int_lt(cuda_device_open(driver, 2, &devices[0], &err), 0);
    ck_assert_msg(strstr(err.text, "GPU 2 cannot be used") != NULL, "%s", err.text);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cuda_device_enter(&devices[i], &modes[i], &err), HVD_OK);
    ck_assert_int_eq(modes[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(modes[1], CU_STREAM_CAPTURE_MODE_RELAXED);
    ck_assert_int_eq(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ck_assert_ptr_eq(current, devices[1].context);
    cuda_device_leave(&devices[1], modes[1]);
    ck_assert_int_eq(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ck_assert_ptr_eq(current, devices[0].context);
    cuda_device_leave(&devices[0], modes[0]);
    ck_assert_int_eq(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ck_assert_ptr_null(current);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ck_assert_int_eq(driver->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < 2; i++)
        cuda_device_close(&devices[i]);
    cuda_device_close(&devices[0]); /* closed before */
    ck_assert_int_lt(cuda_device_enter(&(struct cuda_device){.driver = driver}, modes, &err), 0);
    cuda_driver_close(driver);
}
END_TEST

/* The thread is as it was. */
START_TEST(enters_a_device_whole_or_not_at_all)
{
    struct cuda_device device;
    struct hvd_error err;
    CUcontext current = NULL;
    int mode = 0;
    struct cuda_driver *driver = cuda_double_open();
    ck_assert_int_eq(cuda_device_open(driver, 0, &device, &err), HVD_OK);
    setenv("HVD_DOUBLE_CUDA_FAIL", "cuThreadExchangeStreamCaptureMode:1:999", 1);
    ck_assert_int_eq(cuda_device_enter(&device, &mode, &err), HVD_ERR_SYSTEM);
    ck_assert_int_eq(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ck_assert_ptr_null(current);
    ck_assert_int_eq(driver->cuCtxPushCurrent(device.context), CUDA_SUCCESS);
    cuda_device_leave(&device, mode); /* does nothing */
    ck_assert_int_eq(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ck_assert_ptr_eq(current, device.context);
    ck_assert_int_eq(driver->cuCtxPopCurrent(&current), CUDA_SUCCESS);
    cuda_device_close(&device);
    cuda_driver_close(driver);
}
END_TEST

static int device_of(const struct cuda_driver *driver, const void *pointer)
{
    struct hvd_error err = {""};
    int ordinal = -2;
    ck_assert_msg(pointer_device(driver, pointer, &ordinal, &err) == HVD_OK, "%s", err.text);
    return ordinal;
}

START_TEST(knows_whose_memory_a_pointer_is_of)
{
    struct cuda_device device;
    struct hvd_error err;
    CUdeviceptr on_device = 0, managed = 0;
    void *pinned = NULL;
    static char own[100], registered[8192];
    int mode = 0;
    struct cuda_driver *driver = cuda_double_open();
    ck_assert_int_eq(cuda_device_open(driver, 3, &device, &err), HVD_OK);
    ck_assert_int_eq(cuda_device_enter(&device, &mode, &err), HVD_OK);
    ck_assert_int_eq(driver->cuMemAlloc(&on_device, 1000), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemHostAlloc(&pinned, 1000, 0), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemHostRegister(registered, sizeof(registered), 0), CUDA_SUCCESS);

    ck_assert_int_eq(device_of(driver, (const void *)(on_device + 999)), 3);
    ck_assert_int_eq(device_of(driver, (const void *)(on_device + 1000)), -1);
    ck_assert_int_eq(device_of(driver, (const void *)managed), 3);
    ck_assert_int_eq(device_of(driver, pinned), -1);
    ck_assert_int_eq(device_of(driver, registered + 5), -1);
    ck_assert_int_eq(device_of(driver, own), -1);
    ck_assert_int_eq(device_of(driver, NULL), -1);

    ck_assert_int_eq(driver->cuMemFree(on_device), CUDA_SUCCESS);
    ck_assert_int_eq(device_of(driver, (const void *)on_device), -1);
    ck_assert_int_eq(driver->cuMemFree(managed), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemFreeHost(pinned), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemHostUnregister(registered), CUDA_SUCCESS);
    cuda_device_leave(&device, mode);
    cuda_device_close(&device);
    cuda_driver_close(driver);
}
END_TEST

START_TEST(takes_no_memory_for_the_hosts_when_cuda_does_not_say)
{
    struct cuda_device device;
    struct hvd_error err;
    int ordinal = 0;
    struct cuda_driver *driver = cuda_double_open();
    ck_assert_int_eq(cuda_device_open(driver, 3, &device, &err), HVD_OK);
    setenv("HVD_DOUBLE_CUDA_FAIL", "cuPointerGetAttributes:1:719,cuPointerGetAttributes:2:4", 1);
    ck_assert_int_eq(pointer_device(driver, &device, &ordinal, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "does not say whose memory is at 0x") != NULL, "%s", err.text);
    ck_assert_int_eq(device_of(driver, &device), -1); /* CUDA_ERROR_DEINITIALIZED: there is no GPU any more */
    cuda_device_close(&device);
    cuda_driver_close(driver);
}
END_TEST

static void touch(void *address)
{
    *(volatile char *)address = 1;
}

struct host {
    pthread_barrier_t has_memory;
    void *memory;
};

static void *touch_later(void *arg)
{
    struct host *host = arg;
    pthread_barrier_wait(&host->has_memory);
    touch(host->memory);
    return NULL;
}

/* The double of CUDA catches a host that touches memory of a device: in this thread, in one that was there
 * before the memory, and in a host function of a stream. */
START_TEST(catches_a_host_that_touches_memory_of_a_device)
{
    struct cuda_device device;
    struct hvd_error err;
    struct host host = {.memory = NULL};
    CUdeviceptr memory = 0;
    CUstream stream = NULL;
    pthread_t thread;
    int mode = 0;
    struct cuda_driver *driver = cuda_double_open();
    signal(SIGSEGV, SIG_DFL); /* no report of a sanitizer */
    pthread_barrier_init(&host.has_memory, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, touch_later, &host), 0);
    ck_assert_int_eq(cuda_device_open(driver, 0, &device, &err), HVD_OK);
    ck_assert_int_eq(cuda_device_enter(&device, &mode, &err), HVD_OK);
    ck_assert_int_eq(driver->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemAlloc(&memory, 8), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemsetD8Async(memory, 7, 8, stream), CUDA_SUCCESS); /* devices may */
    ck_assert_int_eq(driver->cuStreamSynchronize(stream), CUDA_SUCCESS);
    host.memory = (void *)memory;
    if (_i == 0)
        touch(host.memory);
    else if (_i == 1)
        pthread_barrier_wait(&host.has_memory);
    else
        driver->cuLaunchHostFunc(stream, touch, host.memory);
    pthread_join(thread, NULL);
}
END_TEST

static void fill_suite(Suite *suite)
{
    TCase *tcase = tcase_create("driver");
    tcase_add_test(tcase, refuses_a_library_that_is_not_there);
    tcase_add_test(tcase, refuses_a_library_without_its_functions);
    tcase_add_test(tcase, refuses_an_old_driver);
    tcase_add_test(tcase, refuses_a_machine_without_devices);
    tcase_add_loop_test(tcase, says_which_error_the_driver_had, 0, 6);
    tcase_add_test(tcase, sees_whether_the_process_has_it);
    tcase_add_test(tcase, enters_and_leaves_a_device);
    tcase_add_test(tcase, enters_a_device_whole_or_not_at_all);
    tcase_add_test(tcase, knows_whose_memory_a_pointer_is_of);
    tcase_add_test(tcase, takes_no_memory_for_the_hosts_when_cuda_does_not_say);
    tcase_add_loop_test_raise_signal(tcase, catches_a_host_that_touches_memory_of_a_device, SIGSEGV, 0, 3);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("driver", fill_suite);
}
