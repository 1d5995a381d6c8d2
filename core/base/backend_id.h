/* backend_id.h: the names of the planes, in the order of preference that "auto" uses. */
#ifndef BASE_BACKEND_ID_H
#define BASE_BACKEND_ID_H

enum plane_id { PLANE_LOCAL, PLANE_SHM, PLANE_HIER_MPI, PLANE_MPI, PLANE_HIER_TCP, PLANE_TCP, PLANE_COUNT };

/* NULL-terminated, indexed by enum plane_id. */
extern const char *const plane_names[PLANE_COUNT + 1];

#endif
