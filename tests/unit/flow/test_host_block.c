/* test_host_block.c: where the host memory lies in which tensors are on their way from and to a GPU. */
#define _GNU_SOURCE
#include "cuda/cuda_double.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/device.h"
#include "flow/host_block.h"

/* Memory of the rank, and how often [provider] has given and taken some. */
static int given, taken;
static bool has_none;

static int give(void *arg, int64_t bytes, void **memoryp, struct hvd_error *err)
{
    (void)arg;
    if (has_none)
        return error_set(err, HVD_ERR_NO_MEMORY, "none is left");
    *memoryp = aligned_alloc(4096, (size_t)bytes);
    ck_assert_ptr_nonnull(*memoryp);
    given++;
    return HVD_OK;
}

static int take(void *arg, void *memory, struct hvd_error *err)
{
    (void)arg;
    (void)err;
    free(memory);
    taken++;
    return HVD_OK;
}

static const struct host_memory provider = {give, take, NULL};

static struct cuda_driver *driver;
static struct cuda_device device;
static struct host_block block;
static int mode;

static void set_up(void)
{
    struct hvd_error err = {""};
    given = taken = 0;
    has_none = false;
    block = (struct host_block){.bytes = 0};
    driver = cuda_double_open();
    ck_assert_msg(cuda_device_open(driver, 0, &device, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(cuda_device_enter(&device, &mode, &err), HVD_OK);
}

static void tear_down(void)
{
    host_block_free(&block, &device, &provider);
    ck_assert_ptr_null(block.memory);
    ck_assert_int_eq(given, taken);
    cuda_device_leave(&device, mode);
    cuda_device_close(&device);
    cuda_driver_close(driver);
}

static void grow(int64_t bytes)
{
    struct hvd_error err = {""};
    ck_assert_msg(host_block_grow(&block, &device, &provider, bytes, &err) == HVD_OK, "%s", err.text);
    ck_assert_ptr_nonnull(block.memory);
    ck_assert_int_eq(block.bytes, bytes);
    memset(block.memory, 1, (size_t)bytes);
}

START_TEST(it_is_memory_that_other_ranks_reach)
{
    grow(8192);
    ck_assert_int_eq(given, 1);
    grow(16384);
    ck_assert_int_eq(given, 2);
    ck_assert_int_eq(taken, 1);
}
END_TEST

START_TEST(it_is_cudas_where_there_is_none)
{
    has_none = true;
    grow(8192);
    ck_assert_int_eq(given, 0);
}
END_TEST

START_TEST(it_is_cudas_where_cuda_cannot_pin_the_other)
{
    setenv("HVD_DOUBLE_CUDA_FAIL", "cuMemHostRegister:1", 1);
    grow(8192);
    ck_assert_int_eq(given, 1);
    ck_assert_int_eq(taken, 1);
}
END_TEST

START_TEST(it_has_no_memory_where_neither_has)
{
    struct hvd_error err = {""};
    setenv("HVD_DOUBLE_CUDA_FAIL", "cuMemHostRegister:1,cuMemHostAlloc:1", 1);
    ck_assert_int_eq(host_block_grow(&block, &device, &provider, 8192, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "no pinned memory of 8192 bytes") != NULL, "%s", err.text);
    ck_assert_ptr_null(block.memory);
    ck_assert_int_eq(block.bytes, 0);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("host_block");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, it_is_memory_that_other_ranks_reach);
    tcase_add_test(tcase, it_is_cudas_where_there_is_none);
    tcase_add_test(tcase, it_is_cudas_where_cuda_cannot_pin_the_other);
    tcase_add_test(tcase, it_has_no_memory_where_neither_has);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("host_block", fill);
}
