/* driver_none.c: driver.h in a build without CUDA: there is no driver. Nothing else of cuda/ is built then.
 */
#include "cuda/driver.h"

int cuda_driver_open(const char *library, struct cuda_driver **driverp, struct hvd_error *err)
{
    (void)library;
    (void)driverp;
    return error_set(
        err, HVD_ERR_UNSUPPORTED,
        "hvd was built without CUDA: build it where configure finds cuda.h and nvcc, or pass tensors "
        "in host memory");
}

void cuda_driver_close(struct cuda_driver *driver)
{
    (void)driver;
}
