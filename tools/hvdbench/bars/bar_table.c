/* bar_table.c: hvd's performance goals on two cores. */
#include "tools/hvdbench/bars/bar.h"

/* The backends in the bars of two nodes. */
#define BACKENDS_TCP "hier-tcp"
#define BACKENDS_MPI "hier-mpi"

/* Between ranks of one node, the bar holds for programs that get their tensors' memory from hvd_alloc. The
 * numbers for malloc memory are shown, but not judged. */
#define HVD_ALLOC_MEMORY ", hvd_alloc memory"
#define MALLOC           ", malloc memory"

#define ALLOC_BY_MPI_BEST(times)                                                                          \
    {                                                                                                     \
        "time / best MPI" HVD_ALLOC_MEMORY, LIMIT_BY, UNIT_TIMES, "hvd_alloc_us", "mpi_best_us", times, 0 \
    }
#define ALLOC_BY_MEMCPY(times, better)                                                                     \
    {                                                                                                      \
        "time / memcpy" HVD_ALLOC_MEMORY, LIMIT_BY, UNIT_TIMES, "hvd_alloc_us", "memcpy_us", times, better \
    }
#define MALLOC_BY_MPI_BEST                                                                 \
    {                                                                                      \
        "time / best MPI" MALLOC, LIMIT_BY, UNIT_TIMES, "hvd_us", "mpi_best_us", NO_BAR, 0 \
    }
#define MALLOC_BY_MEMCPY                                                               \
    {                                                                                  \
        "time / memcpy" MALLOC, LIMIT_BY, UNIT_TIMES, "hvd_us", "memcpy_us", NO_BAR, 0 \
    }
#define BY_MPI_BEST(times)                                                         \
    {                                                                              \
        "time / best MPI", LIMIT_BY, UNIT_TIMES, "hvd_us", "mpi_best_us", times, 0 \
    }
#define TIME(us, better)                                         \
    {                                                            \
        "time", LIMIT_VALUE, UNIT_US, "hvd_us", NULL, us, better \
    }

const struct bar bar_table[] = {
    {.name = "resnet50",
     .title = "ResNet-50: 161 tensors, 97.5 MiB, 2 ranks",
     .commands = {{RUNNER_HVDRUN, 2, NULL, "allreduce --model=resnet50"}},
     .limits = {ALLOC_BY_MPI_BEST(0.7), ALLOC_BY_MEMCPY(1.2, 1.0), MALLOC_BY_MPI_BEST, MALLOC_BY_MEMCPY}},
    {.name = "bert-large",
     .title = "BERT-large: 398 tensors, 1.25 GiB, 2 ranks",
     .commands = {{RUNNER_HVDRUN, 2, NULL, "allreduce --model=bert-large"}},
     .limits = {ALLOC_BY_MPI_BEST(0.7), ALLOC_BY_MEMCPY(1.2, 1.0), MALLOC_BY_MPI_BEST, MALLOC_BY_MEMCPY}},
    {.name = "crowded",
     .title = "ResNet-50, 4 ranks on 2 cores",
     .commands = {{RUNNER_HVDRUN, 4, NULL, "allreduce --model=resnet50"}},
     .limits = {ALLOC_BY_MPI_BEST(0.7), MALLOC_BY_MPI_BEST}},
    {.name = "small",
     .title = "1000 tensors of 1 KiB, 2 ranks",
     .commands = {{RUNNER_HVDRUN, 2, NULL, "small --tensors=1000 --bytes=1K"}},
     .limits = {TIME(800, 300)}},
    {.name = "latency",
     .title = "4 bytes, waiting for each, 2 ranks",
     .commands = {{RUNNER_HVDRUN, 2, NULL, "latency --bytes=4"}},
     .limits = {TIME(20, 3)}},
    {.name = "latency-crowded",
     .title = "4 bytes, waiting for each, 4 ranks on 2 cores",
     .commands = {{RUNNER_HVDRUN, 4, NULL, "latency --bytes=4"}},
     .limits = {TIME(200, 20)}},
    {.name = "nodes-tcp",
     .title = "ResNet-50, 2 nodes with 2 ranks each, by TCP",
     .commands = {{RUNNER_TWO_NODES, 2, BACKENDS_TCP, "allreduce --model=resnet50"}},
     .limits = {BY_MPI_BEST(1.0)}},
    {.name = "nodes-mpi",
     .title = "ResNet-50, 2 nodes with 2 ranks each, by MPI",
     .commands = {{RUNNER_TWO_NODES, 2, BACKENDS_MPI, "allreduce --model=resnet50"}},
     .limits = {BY_MPI_BEST(1.0)}},
    {.name = "idle",
     .title = "5 s without work, 2 ranks",
     .commands = {{RUNNER_HVDRUN, 2, NULL, "idle --seconds=5"}},
     .limits = {{"wake-ups per rank", LIMIT_VALUE, UNIT_COUNT, "wakes", NULL, 0, 0},
                {"CPU time per rank", LIMIT_VALUE, UNIT_US, "cpu_us", NULL, 1000, 0}}},
    {.name = "negotiate",
     .title = "agreement of 64, 1024 and 16384 simulated ranks",
     .commands = {{RUNNER_SINGLE, 0, NULL, "negotiate --ranks=64 --rounds=50"},
                  {RUNNER_SINGLE, 0, NULL, "negotiate --ranks=1024 --rounds=50"},
                  {RUNNER_SINGLE, 0, NULL, "negotiate --ranks=16384 --rounds=5"}},
     .limits = {{"messages per rank - tree radix", LIMIT_ABOVE, UNIT_COUNT, "messages", "radix", 1, 0},
                {"bytes at rank 0, max / min", LIMIT_SPREAD, UNIT_TIMES, "first_root_bytes", NULL, 1, 0}}},
    {.name = "launch",
     .title = "start of 2 ranks",
     .commands = {{RUNNER_SINGLE, 0, NULL, "launch --ranks=2"}},
     .limits = {{"until hvd_init / until MPI_Init", LIMIT_BY, UNIT_TIMES, "hvd_us", "mpi_us", 1, 0},
                {"hvdrun true / mpirun true", LIMIT_BY, UNIT_TIMES, "hvdrun_exit_us", "mpirun_exit_us", 1,
                 0}}},
    {.name = "honest",
     .title = "MPI beside hvd as fast as without it, 2 ranks",
     .turns = 15,
     .commands = {{RUNNER_HVDRUN, 2, NULL, "allreduce --model=resnet50 --rounds=10"},
                  {RUNNER_MPIRUN, 2, NULL, "resnet50 10"}},
     .limits = {{"best MPI, slower / faster job", LIMIT_SPREAD, UNIT_TIMES, "mpi_best_us", NULL, 1.1, 0}}},
    {.name = NULL},
};
