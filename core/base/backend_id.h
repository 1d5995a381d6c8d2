/* backend_id.h: the names of the backends, in the order of preference that "auto" uses. */
#ifndef BASE_BACKEND_ID_H
#define BASE_BACKEND_ID_H

#include <stdint.h>

enum backend_id {
    BACKEND_LOCAL,
    BACKEND_SHM,
    BACKEND_HIER_MPI,
    BACKEND_MPI,
    BACKEND_HIER_TCP,
    BACKEND_TCP,
    BACKEND_NCCL, /* carries tensors on GPUs only, wherever it is in the order; another one carries the
                     numbers of rows for it */
    BACKEND_COUNT
};

/* Those that carry memory of the host, as a mask of bits 1 << enum backend_id. */
#define BACKENDS_OF_HOST (~(UINT32_C(1) << BACKEND_NCCL))

/* NULL-terminated, indexed by enum backend_id. */
extern const char *const backend_names[BACKEND_COUNT + 1];

#endif
