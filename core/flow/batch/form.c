/* form.c: what all ranks agreed on becomes batches. */
#include "flow/batch/form.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "flow/batch/direct.h"

void form_fini(struct form *form)
{
    free(form->items);
    free(form->tensors);
    form->items = NULL;
    form->tensors = NULL;
    form->count = form->capacity = 0;
}

/* ---- A unit is gathered ------------------------------------------------------------------------ */

static bool reserve_items(struct form *form, int more)
{
    if (form->count + more <= form->capacity)
        return true;
    int capacity = 2 * form->capacity + more + 64;
    struct fuse_item *items = reallocarray(form->items, (size_t)capacity, sizeof(*items));
    if (items != NULL)
        form->items = items;
    struct request_tensor **tensors =
        reallocarray(form->tensors, (size_t)capacity, sizeof(struct request_tensor *));
    if (tensors != NULL)
        form->tensors = tensors;
    if (items == NULL || tensors == NULL)
        return false;
    form->capacity = capacity;
    return true;
}

static int no_memory(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
}

/* Only a rank that is broken, or of another version, makes the others agree on what this rank did not ask
 * for. */
static int fail_unasked(const struct desc *desc, struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    desc_title(desc, title, sizeof(title));
    return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on %s, which this rank did not submit", title);
}

/* The request of zeros that this rank, which has joined, runs for an operation that it did not submit. */
static int make_placeholder(const struct desc *desc, struct request **requestp, struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    desc_title(desc, title, sizeof(title));
    if (desc->kind != DESC_ALLREDUCE || !desc_allows_joined(desc))
        return fail_unasked(desc, err);
    struct request *request = request_create(desc);
    if (request == NULL)
        return no_memory(err);
    request->placeholder = true;
    for (int i = 0; i < request->tensor_count; i++) {
        request->tensors[i].count = desc_count(&desc->tensors[i]);
        if (request->tensors[i].count < 0) {
            request_free(request);
            return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on %s, which is too large", title);
        }
    }
    *requestp = request;
    return HVD_OK;
}

static int add_items(struct form *form, const struct decision *decision, struct hvd_error *err)
{
    struct request *request = decision->user;
    if (!reserve_items(form, decision->desc->tensor_count))
        return no_memory(err);
    if (decision->offsets != 0 && (request == NULL || decision->offsets != request->offsets))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the ranks agreed on offsets in memory of hvd_alloc_on that this rank did not name");
    int rc = request == NULL ? make_placeholder(decision->desc, &request, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    trace_count_decided(form->finish->trace, request->id == decision->id);
    request->decided = true;
    request->same_offsets = decision->offsets != 0;
    request->id = decision->id;
    for (int i = 0; i < request->tensor_count; i++) {
        struct fuse_item *item = &form->items[form->count];
        *item = (struct fuse_item){
            .desc = request->desc, .index = i, .backend = decision->backend, .nccl = decision->nccl};
        item->bytes = batch_tensor_bytes(&request->tensors[i]);
        form->tensors[form->count++] = &request->tensors[i];
    }
    return HVD_OK;
}

/* Can it be repeated without the host? What NCCL carries can; and the only member of a set needs no NCCL. */
static bool may_persist(const struct form *form, const struct decision *decision)
{
    const struct desc *desc = decision->desc;
    bool alone = set_registry_size(form->set_registry, desc->set) == 1;
    return decision->nccl || (alone && desc_is_on_device(desc) && desc->op != HVD_ADASUM);
}

static const char *why_not_persistent(const struct desc *desc)
{
    if (!desc_is_on_device(desc))
        return "a tensor is in host memory; a persistent operation is of tensors on GPUs";
    return "NCCL does not carry it, which a persistent operation needs: it does not have this type and "
           "reduction, "
           "or a rank has no NCCL (see hvdinfo doctor)";
}

int form_add(struct form *form, const struct decision *decision, struct hvd_error *err)
{
    if (!decision->desc->persistent || may_persist(form, decision))
        return add_items(form, decision, err);
    if (decision->user == NULL)
        return fail_unasked(decision->desc, err);
    finish_request(form->finish, decision->user, HVD_ERR_UNSUPPORTED, why_not_persistent(decision->desc));
    return HVD_OK;
}

/* ---- It is cut into batches -------------------------------------------------------------------- */

/* The batch of item [i]; the first item of a batch creates it. */
static struct batch *batch_of_item(struct form *form, struct batch **made, int i)
{
    const struct fuse_item *item = &form->items[i];
    struct batch **batchp = &made[item->batch];
    if (*batchp != NULL)
        return *batchp;
    *batchp = batch_create(set_registry_get(form->set_registry, item->desc->set), item->backend, item->desc,
                           item->index);
    if (*batchp == NULL)
        return NULL;
    (*batchp)->fusion_bytes = form->settings->fusion_bytes;
    (*batchp)->transfer.chunk_bytes = form->settings->chunk_bytes;
    (*batchp)->persistent = form->tensors[i]->request->persistent;
    if (item->nccl || (*batchp)->persistent != NULL)
        batch_go_direct(*batchp, form->gpu, !item->nccl);
    return *batchp;
}

/* Add a tensor to a batch. A batch that takes tensors on the GPU through host memory gets their GPU, except
 * on a rank that has joined, whose zeros are in host memory. It is cut as on the other ranks (staging.h). */
static void add_tensor(struct form *form, struct batch *batch, struct request_tensor *tensor)
{
    const struct request *request = tensor->request;
    bool on_host = batch_direct(batch) == NULL;
    batch_add(batch, tensor);
    if (!on_host || !request->desc->tensors[tensor->index].on_device)
        return;
    batch->stage = BATCH_FETCH;
    if (!request->placeholder)
        batch->gpu = form->gpu;
}

static int place_batches(struct batch **made, int count, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; i < count && rc == HVD_OK; i++)
        if (made[i] != NULL)
            rc = direct_find_memory(made[i], err);
    return rc;
}

/* Queue the batches of a unit, in the order of their numbers. Small ones of a set that NCCL carries join the
 * one before them. As with tensors that share a batch, what comes between belongs to other sets, and all
 * members of both see it in the same order. */
static void queue_batches(struct form *form, struct batch **made, int count)
{
    for (int i = 0; i < count && made[i] != NULL; i++) {
        int leader = i - 1;
        while (leader >= 0 && (made[leader] == NULL || made[leader]->set != made[i]->set))
            leader--;
        if (leader >= 0 && batch_join(made[leader], made[i])) {
            made[i] = made[leader]; /* later ones find it here */
            made[leader] = NULL;
        } else {
            batch_queue_append(form->batch_queue, made[i]);
        }
    }
}

/* If memory runs out, tensors that are in no batch stay decided. */
int form_unit(struct form *form, struct hvd_error *err)
{
    int done = 0;
    if (form->count == 0)
        return HVD_OK;
    int count = fuse_plan(form->items, form->count, form->settings->fusion_bytes);
    struct batch **made = calloc((size_t)count, sizeof(struct batch *));
    while (made != NULL && done < form->count) {
        struct batch *batch = batch_of_item(form, made, done);
        if (batch == NULL)
            break;
        add_tensor(form, batch, form->tensors[done]);
        done++;
    }
    int rc = made != NULL ? place_batches(made, count, err) : HVD_OK;
    if (made != NULL)
        queue_batches(form, made, count);
    form->count -= done;
    memmove(form->tensors, form->tensors + done, (size_t)form->count * sizeof(form->tensors[0]));
    free(made);
    if (rc != HVD_OK)
        return rc;
    return form->count == 0 ? HVD_OK : no_memory(err);
}

int form_set_change(struct form *form, const struct decision *decision, struct hvd_error *err)
{
    struct request *request = decision->user;
    struct finish *finish = form->finish;
    bool removed = decision->kind == DECISION_SET_REMOVED;
    bool is_asked = request != NULL;
    if (!is_asked && (removed || !decision->desc->by_members))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the ranks agreed to %s process set %d, which this rank did not ask for",
                         removed ? "remove" : "add", decision->set);
    int rc = form_unit(form, err);
    if (rc != HVD_OK)
        return rc;
    const struct desc *desc = is_asked ? request->desc : decision->desc;
    struct batch *batch =
        batch_create_set_change(removed ? BATCH_SET_REMOVE : BATCH_SET_ADD, decision->set, desc, request);
    if (batch == NULL)
        return no_memory(err);
    batch_set_change(batch)->backends = decision->backends;
    uint64_t agreed = set_registry_count_operation(form->set_registry, desc->set);
    if (is_asked) {
        request->decided = true;
        trace_decided(finish->trace, &request->trace, agreed, finish->now_us);
    }
    if (removed) {
        struct hvd_error reason;
        error_set(&reason, HVD_ERR_SET, "process set %d was removed", decision->set);
        batch->set = set_registry_remove(form->set_registry, decision->set);
        finish_undecided(finish, decision->set, HVD_ERR_SET, reason.text);
    }
    batch_queue_append(form->batch_queue, batch);
    return HVD_OK;
}

void form_abandon(struct form *form, int status, const char *reason)
{
    finish_read_clock(form->finish);
    for (int i = 0; i < form->count; i++)
        finish_tensor(form->finish, form->tensors[i], status, reason);
    form->count = 0;
}
