/* communicator.c: the communicator by which NCCL carries the tensors of a process set, and how it is made. */
#include "flow/batch/communicator.h"

#include <stdlib.h>

#include "backend/nccl/nccl.h"
#include "flow/gpu_memory.h"
#include "net/peer_table.h"

/* What the members tell each other, which takes the place of the batch's own transfer meanwhile. */
struct nccl_exchange {
    struct backend_batch transfer;   /* the batch's own */
    const struct gpu_memory *memory; /* whether it is registered; NULL: something else */
    int64_t *received;               /* of all members; behind it the lengths of each. Part of words */
    int64_t words[];                 /* what this member tells */
};

/* ---- What the members tell each other ---------------------------------------------------------- */

/* Begin to tell [words], of which each member has [count]. */
static int begin_exchange(struct batch *batch, const int64_t *words, int count, struct hvd_error *err)
{
    int size = batch->set->members.size;
    size_t total = (size_t)count * ((size_t)size + 1) + (size_t)size;
    struct nccl_exchange *exchange = calloc(1, sizeof(*exchange) + total * sizeof(exchange->words[0]));
    if (exchange == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d words of %d members", count, size);
    exchange->transfer = batch->transfer;
    exchange->received = exchange->words + count;
    int64_t *counts = exchange->received + (int64_t)count * size;
    for (int i = 0; i < count; i++)
        exchange->words[i] = words[i];
    for (int member = 0; member < size; member++)
        counts[member] = count;
    batch_direct(batch)->exchange = exchange;
    batch->transfer = (struct backend_batch){
        .need = {.kind = COLL_ALLGATHER, .dtype = HVD_INT64, .partial = HVD_INT64, .ranks = size},
        .chunk_bytes = exchange->transfer.chunk_bytes,
        .input = exchange->words,
        .output = exchange->received,
        .prescale = 1,
        .postscale = 1,
        .count = (int64_t)count * size,
        .counts = counts};
    batch->stage = BATCH_START;
    return HVD_OK;
}

static int create(const struct backends *backends, struct batch *batch, struct hvd_error *err)
{
    const struct backend_env *env = &backends->env;
    struct process_set *set = batch->set;
    int node = env->peer_table->node_of_rank[env->job->rank];
    return nccl_team_create(gpu_nccl(batch->gpu), gpu_device(batch->gpu), &set->members, node, &set->nccl,
                            err);
}

static int tell_card(struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int64_t card[NCCL_CARD_WORDS];
    int rc = nccl_team_write_card(batch->set->nccl, card, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK)
        return begin_exchange(batch, card, NCCL_CARD_WORDS, err);
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

static int tell_registered(struct batch *batch, struct hvd_error *err)
{
    int64_t bytes = 0;
    void *memory = gpu_fusion_block(batch->gpu, batch->fusion_bytes, &bytes);
    if (memory == NULL || !nccl_team_register(batch->set->nccl, memory, bytes))
        bytes = 0;
    return begin_exchange(batch, &bytes, 1, err);
}

/* Of a group of batches: the first whose memory NCCL was not asked to register; NULL: there is none. The same
 * on all members. */
static const struct gpu_memory *unknown_memory(const struct batch *leader)
{
    const struct batch *batch = leader;
    while (batch != NULL) {
        const struct gpu_memory *memory = batch_direct(batch)->memory;
        int64_t bytes = 0;
        if (memory != NULL && !nccl_team_knows(leader->set->nccl, gpu_memory_bytes(memory, &bytes)))
            return memory;
        batch = batch == leader ? batch_companions(leader) : batch->next;
    }
    return NULL;
}

static int tell_memory(struct batch *batch, const struct gpu_memory *memory, struct hvd_error *err)
{
    struct nccl_team *team = batch->set->nccl;
    int64_t bytes = 0;
    void *begin = gpu_memory_bytes(memory, &bytes);
    int64_t registered = nccl_team_register(team, begin, bytes);
    if (!nccl_team_knows(team, begin))
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to register %lld bytes with NCCL",
                         (long long)bytes);
    int rc = begin_exchange(batch, &registered, 1, err);
    if (rc == HVD_OK)
        batch_direct(batch)->exchange->memory = memory;
    return rc;
}

int communicator_connect(const struct backends *backends, struct batch *batch, bool *movedp,
                         struct hvd_error *err)
{
    const struct process_set *set = batch->set;
    const struct gpu_memory *memory = set->nccl_ready ? unknown_memory(batch) : NULL;
    *movedp = true;
    if (batch_direct(batch)->alone)
        batch->stage = batch_has_row_counts(batch) ? BATCH_LAY_OUT : BATCH_ROW_COUNTS;
    else if (set->nccl_refused)
        batch_go_through_host(batch);
    else if (set->nccl == NULL)
        return create(backends, batch, err);
    else if (!set->nccl_told)
        return tell_card(batch, movedp, err);
    else if (!set->nccl_connected)
        batch->stage = BATCH_CONNECTING;
    else if (!set->nccl_ready)
        return tell_registered(batch, err);
    else if (memory != NULL)
        return tell_memory(batch, memory, err);
    else
        batch->stage = batch_has_row_counts(batch) ? BATCH_LAY_OUT : BATCH_ROW_COUNTS;
    return HVD_OK;
}

/* ---- What follows from it ---------------------------------------------------------------------- */

/* All members find the same. */
static void refuse_nccl(struct batch *batch, const struct hvd_error *why)
{
    struct process_set *set = batch->set;
    if (set->members.rank == 0)
        gpu_warn(batch->gpu, why->text);
    nccl_team_destroy(set->nccl);
    set->nccl = NULL;
    set->nccl_refused = true;
    set->nccl_refusal = *why;
}

static int take_cards(struct batch *batch, const int64_t *cards, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int rc = nccl_team_connect(batch->set->nccl, cards, &why);
    batch->set->nccl_told = true;
    if (rc == HVD_ERR_UNSUPPORTED)
        refuse_nccl(batch, &why);
    else if (rc != HVD_OK)
        return error_set(err, rc, "%s", why.text);
    return HVD_OK;
}

static int64_t least_of(const struct process_set *set, const int64_t *words)
{
    int64_t least = words[0];
    for (int member = 1; member < set->members.size; member++)
        least = words[member] < least ? words[member] : least;
    return least;
}

static void take_registered(struct process_set *set, const int64_t *bytes)
{
    set->nccl_registered_bytes = least_of(set, bytes);
    set->nccl_ready = true;
}

/* Where one member's is not registered, no member's may be. */
static void take_memory(struct process_set *set, const struct gpu_memory *memory, const int64_t *registered)
{
    int64_t bytes = 0;
    if (least_of(set, registered) == 0)
        nccl_team_deregister(set->nccl, gpu_memory_bytes(memory, &bytes));
}

int communicator_exchanged(struct batch *batch, struct hvd_error *err)
{
    struct nccl_exchange *exchange = batch_direct(batch)->exchange;
    int rc = HVD_OK;
    batch->transfer = exchange->transfer;
    batch_direct(batch)->exchange = NULL;
    batch->stage = BATCH_CONNECT;
    if (exchange->memory != NULL)
        take_memory(batch->set, exchange->memory, exchange->received);
    else if (batch->set->nccl_connected)
        take_registered(batch->set, exchange->received);
    else
        rc = take_cards(batch, exchange->received, err);
    free(exchange);
    return rc;
}

int communicator_test(struct batch *batch, bool *movedp, struct hvd_error *err)
{
    int rc = nccl_team_test(batch->set->nccl, err);
    *movedp = rc == HVD_OK;
    if (rc == HVD_OK) {
        batch->set->nccl_connected = true;
        batch->stage = BATCH_CONNECT;
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

/* ---- Out of another one ------------------------------------------------------------------------ */

bool communicator_splits(const struct process_set *all, const struct batch *batch)
{
    return all->nccl_ready && !batch_set_change(batch)->desc->by_members;
}

int communicator_split(const struct process_set *all, struct batch *batch, bool *donep, struct hvd_error *err)
{
    struct batch_set_change *change = batch_set_change(batch);
    *donep = !communicator_splits(all, batch);
    if (*donep)
        return HVD_OK;
    const struct request *request = change->request;
    int rank = (int)change->desc->tensors[0].shape[0] - 1;
    while (rank >= 0 && request->ranks[rank] != all->members.ranks[all->members.rank])
        rank--;
    int rc = change->splitting ? HVD_OK : nccl_team_split(all->nccl, rank, err);
    change->splitting = true;
    if (rc == HVD_OK)
        rc = nccl_team_test(all->nccl, err);
    *donep = rc == HVD_OK;
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int communicator_take_split(const struct process_set *all, struct process_set *set, struct hvd_error *err)
{
    if (set == NULL)
        return HVD_OK;
    set->nccl_told = true;
    return nccl_team_take_split(all->nccl, &set->members, &set->nccl, err);
}

/* ---- Ends -------------------------------------------------------------------------------------- */

/* Call [function] for the communicator of each process set. Returns whether it did: memory may be out. */
static bool for_each_communicator(struct set_registry *set_registry,
                                  void (*function)(struct nccl_team *team, const void *arg), const void *arg)
{
    int count = set_registry_list(set_registry, NULL, 0);
    hvd_set *sets = calloc((size_t)count, sizeof(*sets));
    if (sets == NULL)
        return false;
    count = set_registry_list(set_registry, sets, count);
    for (int i = 0; i < count; i++) {
        const struct process_set *set = set_registry_get(set_registry, sets[i]);
        if (set != NULL && set->nccl != NULL)
            function(set->nccl, arg);
    }
    free(sets);
    return true;
}

static void forget(struct nccl_team *team, const void *memory)
{
    nccl_team_forget(team, memory);
}

bool communicators_forget(struct set_registry *set_registry, const void *memory)
{
    return for_each_communicator(set_registry, forget, memory);
}

static void abandon(struct nccl_team *team, const void *arg)
{
    (void)arg;
    nccl_team_abort(team);
}

void communicators_abandon(struct set_registry *set_registry)
{
    for_each_communicator(set_registry, abandon, NULL);
}
