/* gpu_mpi.c: tests one promise of libhvd about tensors on GPUs that MPI is given where they are, run by every
 * rank of a job: `gpu_mpi CASE`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu_tensor.h"

/* Wait until mpi_cancel.c has made the file of each rank below this one. */
static void await_tests(void)
{
    const char *path = getenv("TESTED");
    char name[4096];
    int waited_ms = 0;
    for (int other = 0; other < rank; other++) {
        snprintf(name, sizeof(name), "%s.%d", path != NULL ? path : "", other);
        for (; access(name, F_OK) != 0 && waited_ms < 20000; waited_ms++)
            usleep(1000);
    }
}

/* The last rank dies while its GPU has not computed what MPI shall send, and the others wait for it in MPI.
 */
static void lost_before_sending(void)
{
    float here[COUNT] = {0};
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    struct hvd_tensor first = hvd_vector("first", here, COUNT, HVD_FLOAT32);
    struct hvd_tensor tensor = on_gpu("late", memory, COUNT);
    hvd_handle handle = 0;
    signal(SIGTERM, SIG_IGN); /* each sees the loss, whichever leaves first */
    must(hvd_broadcast(&first, 0, NULL), "a broadcast of the host, which starts MPI");
    must(hvd_broadcast_async(&tensor, size - 1, NULL, NULL, NULL, &handle), "a broadcast");
    if (rank == size - 1) {
        await_tests();
        raise(SIGKILL);
    }
    must_be(hvd_wait(handle), HVD_ERR_RANK_LOST, "its end");
    hvd_shutdown();
    printf("rank %d has left\n", rank);
    exit(3);
}

static const struct ranks_case cases[] = {
    {"lost before sending", lost_before_sending, false},
};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
