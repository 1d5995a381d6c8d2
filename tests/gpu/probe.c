/* probe.c: say which GPUs and which NCCL are here, as lines of a key and a value, for tests/gpu/gpu-check.
 * Exits with 0 also where there are none, and says why. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "backend/nccl/nccl.h"
#include "cuda/device.h"
#include "cuda/driver_calls.h"

static void tell_gpu(const struct cuda_driver *driver)
{
    char name[128] = "";
    CUdevice device = 0;
    int count = 0, major = 0;
    driver->cuDeviceGetCount(&count);
    driver->cuDeviceGet(&device, 0);
    driver->cuDeviceGetName(name, sizeof(name), device);
    driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    printf("gpu %s\ngpus %d\ncapability %d\ncuda %d.%d\n", name, count, major, driver->version / 1000,
           driver->version % 1000 / 10);
}

static void tell_nccl(void)
{
    const char *named = getenv("HVD_NCCL_LIBRARY");
    struct nccl *nccl = NULL;
    struct hvd_error err = {""};
    if (nccl_open(named != NULL ? named : "", NULL, &nccl, &err) != HVD_OK) {
        printf("no_nccl %s\n", err.text);
        return;
    }
    int version = nccl_version(nccl);
    printf("nccl %d.%d.%d\nnccl_file %s, %s\n", version / 10000, version % 10000 / 100, version % 100,
           nccl_file(nccl), nccl_origin(nccl));
    nccl_close(nccl);
}

int main(void)
{
    struct cuda_driver *driver = NULL;
    struct hvd_error err = {""};
    if (cuda_driver_open(NULL, &driver, &err) != HVD_OK) {
        printf("no_gpu %s\n", err.text);
        return EXIT_SUCCESS;
    }
    tell_gpu(driver);
    tell_nccl();
    cuda_driver_close(driver);
    return EXIT_SUCCESS;
}
