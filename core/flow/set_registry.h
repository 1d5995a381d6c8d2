/* set_registry.h: the process sets of the job, as one rank knows them: by number, with their members. */
#ifndef FLOW_SET_REGISTRY_H
#define FLOW_SET_REGISTRY_H

#include "backend/backends.h"

struct teams;

/* For rank [rank] of the job; there is no set yet. */
int teams_create(struct teams **teamsp, int rank, struct hvd_error *err);

/* All sets were taken. NULL is fine. */
void teams_destroy(struct teams *teams);

/* ---- By the holder of the baton ---- */

/* From now on the set of [members] exists; their list is ascending and copied. [planes]: bits 1 << enum
 * plane_id of those that may carry its operations. [team]: of the planes, kept; NULL where this rank is no
 * member. On failure it stays the caller's. */
int teams_add(struct teams *teams, const struct plane_team *members, uint32_t planes, struct team *team,
              struct hvd_error *err);

/* From now on [set] is no more; the team that was kept, NULL where there is none. Batches may still be using
 * it. */
struct team *teams_take(struct teams *teams, hvd_set set);

/* The team that is kept for [set]; NULL where there is none. */
struct team *teams_get(struct teams *teams, hvd_set set);

/* One more operation was decided in [set]: how many there were, the same on all members. */
uint64_t teams_agree(struct teams *teams, hvd_set set);

/* ---- Any thread ---- */

/* This rank's place in it, how many members it has: -1 as hvd_set_rank and hvd_set_size say it. */
int teams_rank(struct teams *teams, hvd_set set);
int teams_size(struct teams *teams, hvd_set set);

/* The place of [rank] of the job in it; -1 where it is no member, or where there is no such set. */
int teams_member(struct teams *teams, hvd_set set, int rank);

/* Write up to [capacity] of its members' ranks; returns how many there are, -1 where there is no such set. */
int teams_ranks(struct teams *teams, hvd_set set, int *ranks, int capacity);

/* Write up to [capacity] numbers of the sets that there are, ascending; returns how many there are. */
int teams_list(struct teams *teams, hvd_set *sets, int capacity);

/* The set of exactly these [ranks], which are ascending; -1 where there is none. */
hvd_set teams_find(struct teams *teams, const int *ranks, int count);

/* What teams_add was given; 0 where there is no such set. */
uint32_t teams_planes(struct teams *teams, hvd_set set);
int teams_each(struct teams *teams, hvd_set set);

#endif
