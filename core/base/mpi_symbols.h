/* mpi_symbols.h: the MPI library that is in this process, whichever it is. */
#ifndef BASE_MPI_SYMBOLS_H
#define BASE_MPI_SYMBOLS_H

#include <stdbool.h>

/* The MPI functions that may be called at any time. Their types are the same in all MPI libraries. */
struct mpi_symbols {
    int (*get_library_version)(char *text, int *lengthp);
    int (*initialized)(int *flagp);
    int (*finalized)(int *flagp);
    int (*query_thread)(int *levelp);
};

/* Find them in the MPI library that the program is linked with or that a module has loaded. Loads nothing.
 * Returns false if there is no such library. */
bool mpi_symbols_find(struct mpi_symbols *symbols);

#endif
