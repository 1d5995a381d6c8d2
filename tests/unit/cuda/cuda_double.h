/* cuda_double.h: CUDA by the double of tests/double/cuda, for unit tests. */
#ifndef TESTS_UNIT_CUDA_CUDA_DOUBLE_H
#define TESTS_UNIT_CUDA_CUDA_DOUBLE_H

#include "unit.h"

#include <stdio.h>

#include "cuda/device.h"
#include "cuda/driver_calls.h"

static inline const char *cuda_double_path(void)
{
    static char path[4096];
    const char *build = getenv("HVD_BUILD");
    snprintf(path, sizeof(path), "%s/tests/double/cuda/.libs/libcuda.so.1", build != NULL ? build : ".");
    return path;
}

static inline struct cuda_driver *cuda_double_open(void)
{
    struct cuda_driver *driver = NULL;
    struct hvd_error err = {""};
    ck_assert_msg(cuda_driver_open(cuda_double_path(), &driver, &err) == HVD_OK, "%s", err.text);
    return driver;
}

#endif
