/* direct.h: tensors on the GPU that NCCL carries, without the host. A batch of them is packed, transferred
 * and unpacked in the GPU's queue: the host puts that there, and does not wait for the GPU.
 * communicator.h makes the communicator for it. */
#ifndef FLOW_BATCH_DIRECT_H
#define FLOW_BATCH_DIRECT_H

#include "flow/batch/batch.h"

/* How often to ask NCCL while it connects or launches, and whether it has failed while the GPU works. */
#define NCCL_TEST_US  500
#define NCCL_WATCH_US 100000

/* Before anything else: find the memory in which NCCL can take the tensors of [batch] in place, because all
 * members have them at the same offsets in it, and NCCL can register it. */
int direct_find_memory(struct batch *batch, struct hvd_error *err);

/* The next four take the companions of [leader] with it. LAY_OUT: LAUNCH is next, or DONE; KEEP of a
 * persistent operation. */
int direct_lay_out(struct batch *leader, struct hvd_error *err);

/* KEEP: put into the GPU's own queue what a launch in another stream needs. */
int direct_prepare(struct batch *leader, struct hvd_error *err);

/* LAUNCH, in [stream]: the GPU's own queue, or that in which a persistent operation is started. */
int direct_launch(struct batch *leader, struct CUstream_st *stream, struct hvd_error *err);

/* LAUNCHING: when all is in the GPU's queue, put unpacking behind it. [*movedp]: whether it is; then all are
 * DONE. */
int direct_test_launched(struct batch *leader, bool *movedp, struct hvd_error *err);

/* HVD_IN_PROGRESS, or what NCCL says is wrong with what the GPU works on. */
int direct_watch(const struct batch *batch, struct hvd_error *err);

/* The batch is given up, if NCCL carries it: the GPU's queue goes on. */
void direct_abandon(const struct batch *batch);

#endif
