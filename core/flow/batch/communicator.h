/* communicator.h: the communicator by which NCCL carries the tensors of a process set. Its first batch of
 * such tensors makes it, in steps between which the driver does other things.
 *
 * The members tell each other three things, which the batch's backend carries: their cards before NCCL
 * connects them; after that how much of their fusion buffer NCCL has registered; and of each memory of
 * hvd_alloc_on, before the first batch in which all have their tensors at the same offset in it, whether that
 * is. Where NCCL cannot carry between them, because two have the same GPU, all of them find that out from the
 * cards, and the set's tensors go through the host (staging.h). Where one of them has nothing registered,
 * none has. */
#ifndef FLOW_BATCH_COMMUNICATOR_H
#define FLOW_BATCH_COMMUNICATOR_H

#include "flow/batch/batch.h"
#include "flow/set_registry.h"

/* CONNECT: go on if all is done; otherwise take the next step, or begin to tell the members. [*movedp]:
 * whether anything was done. */
int communicator_connect(const struct backends *backends, struct batch *batch, bool *movedp,
                         struct hvd_error *err);

/* What the members tell has come. */
int communicator_exchanged(struct batch *batch, struct hvd_error *err);

/* CONNECTING. [*movedp]: whether it is done. */
int communicator_test(struct batch *batch, bool *movedp, struct hvd_error *err);

/* The batch that adds a process set, in its turn, when the GPU has done all batches before: if the set of all
 * ranks has a communicator, NCCL makes the new set's out of it. [*donep]: nothing is left to be done. */
int communicator_split(const struct process_set *all, struct batch *batch, bool *donep,
                       struct hvd_error *err);

/* After that: [set] gets it; NULL where this rank is no member. */
int communicator_take_split(const struct process_set *all, struct process_set *set, struct hvd_error *err);

/* No batch uses [memory] any more, and NCCL has put all it was given into the GPU's queue: no communicator
 * has it registered from now on. False: memory is out, and nothing was done. */
bool communicators_forget(struct set_registry *set_registry, const void *memory);

/* The job has failed: abort all sets' communicators, as members that are gone cannot help to finalize them.
 */
void communicators_abandon(struct set_registry *set_registry);

#endif
