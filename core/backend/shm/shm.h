/* shm.h: the backend of ranks that share a node's memory, beyond what all backends have: for its tests. */
#ifndef BACKEND_SHM_SHM_H
#define BACKEND_SHM_SHM_H

#include "backend/shm/shm_team.h"

/* The bytes of a chunk: it stays in the second-level cache between two members. Where ranks share cores the
 * slots of all of them do, as each fills its own before it yields; unless that makes chunks so small that the
 * turns cost more. Then they are large: the more for each turn. */
#define SHM_CHUNK_BYTES         ((int64_t)128 * 1024)
#define SHM_CROWDED_CHUNK_BYTES ((int64_t)512 * 1024)
#define SHM_LEAST_CHUNK_BYTES   ((int64_t)32 * 1024)

/* That for ranks that share cores, of which [size] with caches of so many bytes give to each other. */
int64_t shm_crowded_chunk(int size, int64_t cache_bytes);

/* Use chunks of [bytes], a multiple of 64 and at least 64 for each member, no larger than they were; all
 * members of a team do so before its first batch. Small ones make much of little. */
void shm_set_chunk(void *team, int64_t bytes);

/* Batches from [least_bytes] on may go by domains, in pieces as hier_team_set_chunk has them. */
void shm_set_domains(void *team, int64_t least_bytes, int64_t chunk_bytes);

/* Allreduces from [least_bytes] on may be reduced where they lie. */
void shm_set_direct(void *team, int64_t least_bytes);

#endif
