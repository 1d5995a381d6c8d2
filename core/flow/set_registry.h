/* set_registry.h: the process sets of the job, as one rank knows them: by number, with their members. */
#ifndef FLOW_SET_REGISTRY_H
#define FLOW_SET_REGISTRY_H

#include "backend/backends.h"

struct set_registry;

/* For rank [rank] of the job; there is no set yet. */
int set_registry_create(struct set_registry **set_registryp, int rank, struct hvd_error *err);

/* All sets were taken. NULL is fine. */
void set_registry_destroy(struct set_registry *set_registry);

/* ---- By the holder of the progress ---- */

/* From now on the set of [members] exists; their list is ascending and copied. [backends]: bits 1 << enum
 * backend_id of those that may carry its operations. [team]: of the backends, kept; NULL where this rank is
 * no member. On failure it stays the caller's. */
int set_registry_add(struct set_registry *set_registry, const struct team *members, uint32_t backends,
                     struct process_set *team, struct hvd_error *err);

/* From now on [set] is no more; the team that was kept, NULL where there is none. Batches may still be using
 * it. */
struct process_set *set_registry_remove(struct set_registry *set_registry, hvd_set set);

/* The team that is kept for [set]; NULL where there is none. */
struct process_set *set_registry_get(struct set_registry *set_registry, hvd_set set);

/* One more operation was decided in [set]: how many there were, the same on all members. */
uint64_t set_registry_count_operation(struct set_registry *set_registry, hvd_set set);

/* ---- Any thread ---- */

/* This rank's place in it, how many members it has: -1 as hvd_set_rank and hvd_set_size say it. */
int set_registry_rank(struct set_registry *set_registry, hvd_set set);
int set_registry_size(struct set_registry *set_registry, hvd_set set);

/* The place of [rank] of the job in it; -1 where it is no member, or where there is no such set. */
int set_registry_member(struct set_registry *set_registry, hvd_set set, int rank);

/* Write up to [capacity] of its members' ranks; returns how many there are, -1 where there is no such set. */
int set_registry_ranks(struct set_registry *set_registry, hvd_set set, int *ranks, int capacity);

/* Write up to [capacity] numbers of the sets that there are, ascending; returns how many there are. */
int set_registry_list(struct set_registry *set_registry, hvd_set *sets, int capacity);

/* The set of exactly these [ranks], which are ascending; -1 where there is none. */
hvd_set set_registry_find(struct set_registry *set_registry, const int *ranks, int count);

/* What set_registry_add was given; 0 where there is no such set. */
uint32_t set_registry_backends(struct set_registry *set_registry, hvd_set set);
int set_registry_ppn(struct set_registry *set_registry, hvd_set set);

#endif
