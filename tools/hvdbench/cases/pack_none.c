/* pack_none.c: the case pack in a build without CUDA: always an error. */
#include "cuda/driver.h"
#include "tools/hvdbench/cases/cases.h"

int case_pack(struct bench *bench, struct hvd_error *err)
{
    (void)bench;
    struct cuda_driver *driver = NULL;
    return cuda_driver_open(NULL, &driver, err);
}
