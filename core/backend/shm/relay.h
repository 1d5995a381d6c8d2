/* relay.h: the carrier between the NUMA domains of a node: chunks go round a ring of members, each of which
 * copies them out of slots of the one before. */
#ifndef BACKEND_SHM_RELAY_H
#define BACKEND_SHM_RELAY_H

#include "backend/backend.h"
#include "node/arena.h"

/* What a ring of [size] members claims of its arena. */
size_t relay_bytes(int size);

/* No backend: it has what hier_team.c calls of a carrier. Its state is the arena that all members of a set
 * share; there the ring of slice s, which begin at 1, has the claim -1 - s. */
extern const struct backend_ops relay_ops;

#endif
