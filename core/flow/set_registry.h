/* set_registry.h: the process sets of the job, by number, with their members, as one rank knows them. */
#ifndef FLOW_SET_REGISTRY_H
#define FLOW_SET_REGISTRY_H

#include "backend/backends.h"

struct set_registry;

/* For rank [rank] of the job. Has no set yet. */
int set_registry_create(struct set_registry **set_registryp, int rank, struct hvd_error *err);

/* All sets have been removed. NULL is fine. */
void set_registry_destroy(struct set_registry *set_registry);

/* ---- The driver only ---- */

/* From now on the set of [members] exists; their list is ascending and copied. [by_members]: the others do
 * not know it. [backends]: bits 1 << enum backend_id of those that may carry its operations. [set]: the
 * registry owns it from now on; NULL where this rank is not a member. On failure it stays the caller's. */
int set_registry_add(struct set_registry *set_registry, const struct team *members, bool by_members,
                     uint32_t backends, struct process_set *set, struct hvd_error *err);

/* Remove [set]. Returns the process set that was added with it, which is the caller's now: NULL where there
 * is none. Batches that were decided before may still use it. */
struct process_set *set_registry_remove(struct set_registry *set_registry, hvd_set set);

/* The process set that was added for [set]; NULL where there is none. */
struct process_set *set_registry_get(struct set_registry *set_registry, hvd_set set);

/* Did [set] exist, and does it no more? Sets are numbered upwards. */
bool set_registry_was_removed(const struct set_registry *set_registry, hvd_set set);

/* Count an operation that was decided in [set]. Returns how many there have been, the same on all members. */
uint64_t set_registry_count_operation(struct set_registry *set_registry, hvd_set set);

/* ---- Any thread ---- */

/* This rank's member number in [set], and how many members it has; -1 as for hvd_set_rank and hvd_set_size.
 */
int set_registry_rank(struct set_registry *set_registry, hvd_set set);
int set_registry_size(struct set_registry *set_registry, hvd_set set);

/* The member number of [rank] of the job; -1 where it is not a member, or the set does not exist. */
int set_registry_member(struct set_registry *set_registry, hvd_set set, int rank);

/* Write the ranks of up to [capacity] members. Returns how many members there are; -1 where the set does not
 * exist. */
int set_registry_ranks(struct set_registry *set_registry, hvd_set set, int *ranks, int capacity);

/* Write the numbers of up to [capacity] sets, ascending. Returns how many sets there are. */
int set_registry_list(struct set_registry *set_registry, hvd_set *sets, int capacity);

/* The first set whose members are exactly [ranks], ascending; -1 where there is none. [by_members]: also one
 * that only they know. */
hvd_set set_registry_find(struct set_registry *set_registry, const int *ranks, int count, bool by_members);

/* Do the members of [set] alone know it? */
bool set_registry_is_by_members(struct set_registry *set_registry, hvd_set set);

/* The backends and the ppn that the set was added with; 0 where it does not exist. */
uint32_t set_registry_backends(struct set_registry *set_registry, hvd_set set);
int set_registry_ppn(struct set_registry *set_registry, hvd_set set);

#endif
