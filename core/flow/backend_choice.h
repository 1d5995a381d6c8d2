/* backend_choice.h: which backends of this rank can carry an operation. The ranks agree on one of them when
 * they negotiate it. */
#ifndef FLOW_BACKEND_CHOICE_H
#define FLOW_BACKEND_CHOICE_H

#include "backend/backends.h"
#include "backend/nccl/nccl.h"
#include "flow/set_registry.h"
#include "negotiate/desc.h"

/* Bits 1 << enum backend_id of the backends that can carry [desc] in its set; for a join or a new set, those
 * that this rank has at all. 0 where no backend is needed or none can: the set does not exist, or has a size
 * that Adasum does not support. [nccl] is what this rank can use NCCL for. The same at every call while the
 * set exists and [nccl] is the same. Any thread. */
uint32_t backend_choice(const struct backends *backends, struct set_registry *set_registry,
                        const struct nccl_use *nccl, const struct desc *desc);

#endif
