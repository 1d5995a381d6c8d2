/* communicator.h: the NCCL communicator of a process set. The first batch of GPU tensors of the set creates
 * it, in steps between which the driver does other work.
 *
 * The members exchange three things through the batch's backend: their cards, before NCCL connects them; how
 * much of their fusion buffer NCCL has registered, once it has connected them; and for each memory of
 * hvd_alloc_on whether NCCL has registered it, before the first batch in which all members have their tensors
 * at the same offset in it. If two members have the same GPU, NCCL cannot connect them: all members see that
 * in the cards, and the tensors of the set are staged in host memory (staging.h). If NCCL has registered
 * nothing on one member, no member uses registered memory. */
#ifndef FLOW_BATCH_COMMUNICATOR_H
#define FLOW_BATCH_COMMUNICATOR_H

#include "flow/batch/batch.h"
#include "flow/set_registry.h"

/* CONNECT: go on to the next step of the batch if the communicator is ready; otherwise take the next step of
 * creating it, or begin the next exchange. [*movedp]: whether anything was done. */
int communicator_connect(const struct backends *backends, struct batch *batch, bool *movedp,
                         struct hvd_error *err);

/* The exchange is complete: use what the members have sent. */
int communicator_exchanged(struct batch *batch, struct hvd_error *err);

/* CONNECTING. [*movedp]: whether it is done. */
int communicator_test(struct batch *batch, bool *movedp, struct hvd_error *err);

/* Does NCCL make the communicator of the set that [batch] adds out of that of all ranks? This takes all of
 * them; a set that its members alone add gets one when they first need it. */
bool communicator_splits(const struct process_set *all, const struct batch *batch);

/* The batch that adds a process set is next, and the GPU has completed all batches before it: NCCL
 * splits the new set's communicator off that of all ranks, where communicator_splits. [*donep]: nothing is
 * left to do. */
int communicator_split(const struct process_set *all, struct batch *batch, bool *donep,
                       struct hvd_error *err);

/* After that: give the new communicator to [set]; NULL on a rank that is no member. */
int communicator_take_split(const struct process_set *all, struct process_set *set, struct hvd_error *err);

/* Deregister [memory] with all communicators. Call it when no batch uses the memory any more and NCCL has
 * launched all that it was given. False if there is not enough host memory; then nothing was done. */
bool communicators_forget(struct set_registry *set_registry, const void *memory);

/* The job has failed: abort the communicators of all sets. Finalizing them would wait for lost members. */
void communicators_abandon(struct set_registry *set_registry);

#endif
