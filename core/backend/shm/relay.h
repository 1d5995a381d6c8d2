/* relay.h: the relay, which carries chunks between the NUMA domains of one node: they go round a ring of
 * members, each of which copies them out of the slots of the previous one. */
#ifndef BACKEND_SHM_RELAY_H
#define BACKEND_SHM_RELAY_H

#include "backend/backend.h"
#include "node/arena.h"

/* How many bytes of the arena a ring of [size] members acquires. */
size_t relay_bytes(int size);

/* Not a complete backend: it has only the calls that hier_team.c makes of a carrier. Its state is the arena
 * that all members of a set share. There the ring of slice s, from 1 on, acquires a region under the number
 * -1 - s. */
extern const struct backend_ops relay_ops;

#endif
