/* wrong_sums.c: preloaded, it makes the last rank's hvd_allreduce of "tensor.0" give a wrong result. */
#include "config.h"

#include <dlfcn.h>
#include <string.h>

#include "hvd.h"

enum hvd_status hvd_allreduce(const struct hvd_tensor *tensor, enum hvd_op op,
                              const struct hvd_options *options)
{
    enum hvd_status (*real)(const struct hvd_tensor *, enum hvd_op, const struct hvd_options *) = NULL;
    void *found = dlsym(RTLD_NEXT, "hvd_allreduce");
    memcpy(&real, &found, sizeof(real));
    enum hvd_status status = real(tensor, op, options);
    if (strcmp(tensor->name, "tensor.0") == 0 && hvd_rank() == hvd_size() - 1)
        *(unsigned char *)tensor->output ^= 1;
    return status;
}
