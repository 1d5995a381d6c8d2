/* direct.h: tensors on the GPU that NCCL carries, without the host. A batch of them is packed, transferred
 * and unpacked in the GPU's queue: the host puts that there, and does not wait for the GPU.
 *
 * The first such batch of a process set makes its communicator. For that its members tell each other their
 * cards, which the batch's backend carries. Where NCCL cannot carry between them, because two have the same
 * GPU, all of them find that out from the cards, and the set's tensors go through the host (staging.h). */
#ifndef FLOW_BATCH_DIRECT_H
#define FLOW_BATCH_DIRECT_H

#include "flow/batch/batch.h"

/* CONNECT: go on if the set has its communicator; otherwise begin to tell the members the cards. */
int direct_connect(const struct backends *backends, struct batch *batch, struct hvd_error *err);

/* The cards have come: CONNECTING, or through the host. */
int direct_take_cards(struct batch *batch, struct hvd_error *err);

/* CONNECTING, LAUNCHING. [*movedp]: whether it is done. */
int direct_test_connected(struct batch *batch, bool *movedp, struct hvd_error *err);
int direct_test_launched(struct batch *batch, bool *movedp, struct hvd_error *err);

/* Do the factors of this batch make it go through the fusion buffer? */
bool direct_scales(const struct batch *batch);

/* LAY_OUT. */
int direct_lay_out(struct batch *batch, struct hvd_error *err);

/* LAUNCH. Where it was packed, direct_test_launched puts unpacking behind it. */
int direct_launch(struct batch *batch, struct hvd_error *err);

/* HVD_IN_PROGRESS, or what NCCL says is wrong with what the GPU works on. */
int direct_watch(const struct batch *batch, struct hvd_error *err);

/* The batch is given up, if NCCL carries it: the GPU's queue goes on. */
void direct_abandon(const struct batch *batch);

#endif
