/* hello.c: the example of README.md: the sum of 1, 2, 3, ... over the ranks. */
#include <stdio.h>

#include <hvd.h>

int main(void)
{
    if (hvd_init() != HVD_OK) {
        fprintf(stderr, "%s\n", hvd_error_text());
        return 1;
    }
    double value = hvd_rank() + 1;
    struct hvd_tensor tensor = hvd_vector("value", &value, 1, HVD_FLOAT64);
    if (hvd_allreduce(&tensor, HVD_SUM, NULL) != HVD_OK) {
        fprintf(stderr, "rank %d: %s\n", hvd_rank(), hvd_error_text());
        return 1;
    }
    printf("rank %d of %d: the sum is %g\n", hvd_rank(), hvd_size(), value);
    return hvd_shutdown() == HVD_OK ? 0 : 1;
}
