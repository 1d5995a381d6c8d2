/* shm.h: backend shm, for teams whose ranks share a node's memory: chunk sizes, and hooks for its tests.
 *
 * A batch goes one of two ways: chunk by chunk through the slots (shm_pipeline.c, with the segments of
 * shm_segments.c); or in place, if all its memory is in windows (shm_direct.c). All ranks choose the same
 * way, and both give the same bits. shm.c has the backend's calls; store_policy.c decides which stores bypass
 * the cache. */
#ifndef BACKEND_SHM_SHM_H
#define BACKEND_SHM_SHM_H

#include "backend/shm/shm_team.h"

/* The bytes of a chunk. A chunk of this size stays in the second-level cache while two members pass it on.
 * Where ranks share cores, the slots of all members should fit into one cache, because each member fills all
 * of its own before it yields. If that would need chunks so small that the context switches dominate, chunks
 * are large instead, so that more is done for each switch. */
#define SHM_CHUNK_BYTES                ((int64_t)128 * 1024)
#define SHM_OVERSUBSCRIBED_CHUNK_BYTES ((int64_t)512 * 1024)
#define SHM_LEAST_CHUNK_BYTES          ((int64_t)32 * 1024)

/* For tests: the chunk size for [size] ranks that share cores with second-level caches of [cache_bytes]. */
int64_t shm_oversubscribed_chunk(int size, int64_t cache_bytes);

/* For tests: the bytes of a slot where [size] ranks share cores. Members of large teams share out what 32
 * would have, as every rank maps, page by page, what all members put into their slots. */
int64_t shm_oversubscribed_slot(int size);

#endif
