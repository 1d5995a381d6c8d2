/* hvdbench.c: measure hvd, MPI and plain memory copies in turn, in one job. */
#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/run.h"

int main(int argc, char **argv)
{
    (void)argc;
    return bench_run(&hvdbench_program, argv);
}
