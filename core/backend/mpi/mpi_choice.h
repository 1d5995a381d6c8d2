/* mpi_choice.h: may this process carry tensors by MPI? Pure: mpi_stub.c gathers the facts. */
#ifndef BACKEND_MPI_MPI_CHOICE_H
#define BACKEND_MPI_MPI_CHOICE_H

#include <stdbool.h>

/* What is known without starting MPI or loading it. */
struct mpi_facts {
    int size, node_count;
    const char *
        built_with; /* version of Open MPI that the module was built with, such as "4.1.4"; NULL: not built */
    bool asked;     /* the option backends names mpi */
    const char *library; /* what the MPI library in this process says of itself; NULL: there is none */
    bool initialized, finalized;
    int thread_level; /* where initialized: 0 (MPI_THREAD_SINGLE) to 3 (MPI_THREAD_MULTIPLE) */
    bool pmix;        /* a PMIx server told this process its name, so that MPI_Init would find it */
    bool rdma;        /* this node has a device that MPI drives better than sockets do */
    bool part;        /* the job is a part of the launcher's */
};

/* True, or false with *whyp a phrase that says why not and, where the user can, how to mend it. */
bool mpi_choice(const struct mpi_facts *facts, const char **whyp);

#endif
