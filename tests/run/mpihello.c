/* mpihello.c: an MPI program without hvd: prints its rank and size, and sums the ranks. With "abort N" rank N
 * calls MPI_Abort with status 7 while the others wait. With "leave N" rank N returns from main without
 * MPI_Finalize while the others wait, with "replace N" it runs another program in its place, which ends, and
 * with "forget" no rank calls MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank = -1;
    int size = -1;
    int local_size = -1;
    int sum = -1;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 3 && strcmp(argv[1], "abort") == 0 && strtol(argv[2], NULL, 10) == rank)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (argc == 3 && strcmp(argv[1], "leave") == 0 && strtol(argv[2], NULL, 10) == rank)
        return 0;
    if (argc == 3 && strcmp(argv[1], "replace") == 0 && strtol(argv[2], NULL, 10) == rank)
        execlp("true", "true", (char *)NULL);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &local_size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, %d on this node, sum %d\n", rank, size, local_size, sum);
    MPI_Comm_free(&node);
    if (argc == 2 && strcmp(argv[1], "forget") == 0)
        _exit(0);
    MPI_Finalize();
    return 0;
}
