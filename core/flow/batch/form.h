/* form.h: what all ranks agreed on becomes batches. Operations that were decided together, a unit, are cut
 * into batches, whose tensors fuse (fuse.h).
 *
 * Owns the tensors of a unit until they are in batches. Calls the batch queue with what will run, and finish
 * with what never will. A set that is removed leaves the set registry here, at its place in the agreed order;
 * run destroys it later. */
#ifndef FLOW_BATCH_FORM_H
#define FLOW_BATCH_FORM_H

#include "flow/batch/batch_queue.h"
#include "flow/batch/fuse.h"
#include "flow/set_registry.h"

struct form {
    const struct tuned_settings *settings; /* in force for what is decided from here on */
    struct set_registry *set_registry;
    struct batch_queue *batch_queue;
    struct finish *finish;
    struct gpu *gpu;
    struct fuse_item *items;         /* of the unit */
    struct request_tensor **tensors; /* of each item */
    int count, capacity;
};

/* Free the lists. Every decided tensor is in a batch, or form_abandon has ended it. A zeroed form is fine. */
void form_fini(struct form *form);

/* An operation with tensors that is part of this unit. If it cannot be persistent as it should, it ends. */
int form_add(struct form *form, const struct decision *decision, struct hvd_error *err);

/* That was the last of the unit: cut it into batches, and queue them. */
int form_unit(struct form *form, struct hvd_error *err);

/* A process set comes or goes, after everything that was decided before. */
int form_set_change(struct form *form, const struct decision *decision, struct hvd_error *err);

/* End the tensors that are decided and in no batch. */
void form_abandon(struct form *form, int status, const char *reason);

#endif
