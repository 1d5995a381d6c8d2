/* test_gpu_find.c: whose memory a tensor's is, asked by several threads at the start. */
#include "cuda/cuda_double.h"

#include <pthread.h>

#include "flow/gpu.h"

#define THREADS 4
#define ROUNDS  500

struct asking {
    struct gpu *gpu;
    struct hvd_tensor tensor;
    pthread_barrier_t together;
};

static void *ask(void *arg)
{
    struct asking *asking = arg;
    bool on_device = false;
    struct hvd_error err = {""};
    pthread_barrier_wait(&asking->together);
    int rc = gpu_find(asking->gpu, &asking->tensor, &on_device, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_msg(on_device, "memory of a GPU was taken for the host's");
    return NULL;
}

/* The first tensors of a program come from several threads, and hvd looks for CUDA's driver only then. */
START_TEST(threads_find_the_same)
{
    struct cuda_driver *driver = cuda_double_open();
    struct cuda_device device;
    struct hvd_config config = {.nccl_library = "none"};
    struct hvd_log log = {LOG_OFF, NULL, NULL};
    struct hvd_job job = {.size = 1};
    const struct backend_env env = {.config = &config, .log = &log, .job = &job, .epoll_fd = -1};
    struct hvd_error err = {""};
    CUdeviceptr memory = 0;
    int mode = 0;
    ck_assert_int_eq(cuda_device_open(driver, 0, &device, &err), HVD_OK);
    ck_assert_int_eq(cuda_device_enter(&device, &mode, &err), HVD_OK);
    ck_assert_int_eq(driver->cuMemAlloc(&memory, 64), CUDA_SUCCESS);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        struct asking asking = {.tensor = hvd_vector("w", (void *)memory, 16, HVD_FLOAT32)};
        ck_assert_int_eq(gpu_create(&asking.gpu, &env, &err), HVD_OK);
        ck_assert_int_eq(pthread_barrier_init(&asking.together, NULL, THREADS), 0);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &asking), 0);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        pthread_barrier_destroy(&asking.together);
        gpu_destroy(asking.gpu);
    }
    ck_assert_int_eq(driver->cuMemFree(memory), CUDA_SUCCESS);
    cuda_device_leave(&device, mode);
    cuda_device_close(&device);
    cuda_driver_close(driver);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("find");
    tcase_set_timeout(tcase, 30); /* TSan makes the start of threads slow */
    tcase_add_test(tcase, threads_find_the_same);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("gpu_find", fill);
}
