/* mpi_choice.h: may this process carry tensors by MPI? Pure: mpi_stub.c gathers the facts. */
#ifndef BACKEND_MPI_MPI_CHOICE_H
#define BACKEND_MPI_MPI_CHOICE_H

#include <stdbool.h>

/* What is known without starting MPI or loading it. */
struct mpi_facts {
    int size, node_count;
    const char *
        built_with; /* version of Open MPI that the module was built with, such as "4.1.4"; NULL: not built */
    bool asked;     /* the option backends names mpi or hier_mpi */
    const char *library; /* MPI_Get_library_version of the MPI library in this process; NULL: there is none */
    bool initialized, finalized;
    int thread_level; /* if initialized: 0 (MPI_THREAD_SINGLE) to 3 (MPI_THREAD_MULTIPLE) */
    bool pmix;        /* this process was started by a PMIx server, which MPI_Init needs */
    bool rdma;        /* this node has a network device that MPI uses and sockets do not */
    bool sub_job;     /* the job is a part of the launcher's */
    bool encrypt;     /* what crosses the network must be encrypted */
};

/* May MPI be used? If not, *whyp is a phrase that says why and, if the user can do something about it, what.
 */
bool mpi_choice(const struct mpi_facts *facts, const char **whyp);

#endif
