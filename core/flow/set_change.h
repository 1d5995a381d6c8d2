/* set_change.h: process sets come and go, in their turn among the batches, so that all ranks see them come
 * and go between the same operations.
 *
 * Owns nothing: it keeps the set registry and the backends in step. Run calls it for the batches that add or
 * remove a set; the loop calls it at its beginning and end. */
#ifndef FLOW_SET_CHANGE_H
#define FLOW_SET_CHANGE_H

#include "flow/batch/batch.h"
#include "flow/set_registry.h"

/* Create the registry with HVD_ALL_RANKS, of [size] ranks, in it. */
int set_change_init(struct set_registry **set_registryp, struct backends *backends, int rank, int size,
                    struct hvd_error *err);

/* The [change] of DECISION_SET_ADDED has its turn on rank [rank]. May block until the other ranks come to it.
 * Where others make a set for themselves alone, this rank opens the backends with them, and no more: it does
 * not know the set. */
int set_change_add(struct set_registry *set_registry, struct backends *backends, int rank,
                   const struct batch_set_change *change, struct hvd_error *err);

/* That of DECISION_SET_REMOVED has its turn, after the last operation of [*setp], which is destroyed; NULL
 * where this rank is no member. */
void set_change_remove(struct backends *backends, struct process_set **setp);

/* Destroy the registry and all its sets; no batch is left. *set_registryp may be NULL. */
void set_change_close(struct set_registry **set_registryp, struct backends *backends);

#endif
