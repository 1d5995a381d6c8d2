/* backend_choice.c: which backends of this rank can carry an operation. */
#include "flow/backend_choice.h"

#include "flow/batch/adasum.h"
#include "flow/batch/batch.h"

static bool nccl_carries_all(const struct nccl_use *nccl, const struct desc *desc, int members)
{
    bool carries = desc->kind != DESC_ALLREDUCE || desc->op != HVD_ADASUM;
    for (int i = 0; i < desc->tensor_count && carries; i++) {
        struct backend_need need = batch_need(desc, i, members);
        carries = desc->tensors[i].on_device && nccl_carries(nccl, &need, desc->prescale, desc->postscale);
    }
    return carries;
}

/* NCCL, if it can carry [desc] between [members] ranks. [host] is the mask of backends that can: one of them
 * carries the cards by which its ranks find each other, and the numbers of rows. */
static uint32_t nccl_of(const struct backends *backends, const struct nccl_use *nccl, const struct desc *desc,
                        uint32_t host, int members, int ppn)
{
    const struct backend_need cards = {
        .kind = COLL_ALLGATHER, .dtype = HVD_INT64, .partial = HVD_INT64, .ranks = members};
    uint32_t supporting = backends_supporting(backends, &cards, ppn);
    bool carries = (host & ~supporting) == 0 && nccl_carries_all(nccl, desc, members);
    return carries ? UINT32_C(1) << BACKEND_NCCL : 0;
}

/* Those that can carry tensor [index] of [desc] among [members] ranks, and the row counts where the ranks
 * exchange these first. */
static uint32_t backends_of_tensor(const struct backends *backends, const struct desc *desc, int index,
                                   int members, int ppn)
{
    struct backend_need need = batch_need(desc, index, members);
    uint32_t supporting = backends_supporting(backends, &need, ppn);
    if (desc_is_sized_later(desc->kind)) {
        need.dtype = need.partial = HVD_INT64;
        supporting &= backends_supporting(backends, &need, ppn);
    }
    return supporting;
}

uint32_t backend_choice(const struct backends *backends, struct set_registry *set_registry,
                        const struct nccl_use *nccl, const struct desc *desc)
{
    uint32_t usable = set_registry_backends(set_registry, desc->set);
    int members = set_registry_size(set_registry, desc->set);
    int ppn = set_registry_ppn(set_registry, desc->set);
    if (desc->kind == DESC_SET_ADD)
        return backends_available(backends);
    if (desc->kind == DESC_JOIN)
        return (usable & backends_available(backends)) | (uint32_t)nccl->possible << BACKEND_NCCL;
    if (desc->kind >= DESC_NAMED_COUNT)
        return 0;
    if (desc->kind == DESC_ALLREDUCE && desc->op == HVD_ADASUM && !adasum_supports(members))
        return 0;
    for (int i = 0; i < desc->tensor_count; i++) {
        bool same_dtype = i > 0 && desc->tensors[i].dtype == desc->tensors[i - 1].dtype;
        if (!same_dtype)
            usable &= backends_of_tensor(backends, desc, i, members, ppn);
    }
    usable &= BACKENDS_OF_HOST;
    return usable | nccl_of(backends, nccl, desc, usable, members, ppn);
}
