/* backend_id.h: the names of the backends, in the order of preference that "auto" uses. */
#ifndef BASE_BACKEND_ID_H
#define BASE_BACKEND_ID_H

enum backend_id {
    BACKEND_LOCAL,
    BACKEND_SHM,
    BACKEND_HIER_MPI,
    BACKEND_MPI,
    BACKEND_HIER_TCP,
    BACKEND_TCP,
    BACKEND_COUNT
};

/* NULL-terminated, indexed by enum backend_id. */
extern const char *const backend_names[BACKEND_COUNT + 1];

#endif
