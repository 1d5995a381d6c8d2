/* negotiate.c: what is ready on every rank, in one agreed order: the calls. */
#include "negotiate/negotiate.h"

#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

bool negotiate_grow(void *arrayp, size_t *capacityp, size_t count, size_t element_bytes)
{
    void *array = NULL;
    if (count < *capacityp)
        return true;
    memcpy(&array, arrayp, sizeof(array));
    size_t capacity = 2 * *capacityp + 16;
    void *larger = reallocarray(array, capacity, element_bytes);
    if (larger == NULL)
        return false;
    memcpy(arrayp, &larger, sizeof(larger));
    *capacityp = capacity;
    return true; /* cppcheck-suppress memleak ; the array is the caller's */
}

int negotiate_no_memory(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for the negotiation");
}

int negotiate_create(struct negotiate **negotiatep, const struct negotiate_params *params,
                     struct hvd_error *err)
{
    uint64_t all = (UINT64_C(2) << params->child_count) - 1;
    struct negotiate *negotiate = calloc(1, sizeof(*negotiate));
    if (negotiate == NULL)
        return negotiate_no_memory(err);
    negotiate->params = *params;
    negotiate->leaving_rank = -1;
    negotiate->outboxes = calloc((size_t)params->child_count + 1, sizeof(struct outbox));
    int rc = negotiate->outboxes != NULL ? subtree_set_add(negotiate, HVD_ALL_RANKS, all, params->root, err)
                                         : negotiate_no_memory(err);
    if (rc != HVD_OK) {
        negotiate_destroy(negotiate);
        return rc;
    }
    *negotiatep = negotiate;
    return HVD_OK;
}

static void release_decision(struct decision *decision)
{
    desc_release(decision->desc);
    desc_release(decision->other);
    free((void *)decision->stall);
    decision->desc = NULL;
    decision->other = NULL;
    decision->stall = NULL;
}

void negotiate_destroy(struct negotiate *negotiate)
{
    if (negotiate == NULL)
        return;
    for (size_t i = negotiate->decision_at; i < negotiate->decision_count; i++)
        release_decision(&negotiate->decisions[i]);
    for (size_t i = 0; i < negotiate->subtree_set_count; i++)
        subtree_set_destroy(negotiate->subtree_sets[i]);
    for (int i = 0; negotiate->outboxes != NULL && i < negotiate->params.child_count; i++)
        wire_free(&negotiate->outboxes[i].writer);
    wire_free(&negotiate->up);
    wire_free(&negotiate->issue);
    wire_free(&negotiate->notes);
    desc_release(negotiate->last);
    free(negotiate->subtree_sets);
    free(negotiate->outboxes);
    free(negotiate->to_report.at);
    free(negotiate->to_decide.at);
    free(negotiate->retired_ids.at);
    free(negotiate->numbers.at);
    free(negotiate->ids);
    free(negotiate->decisions);
    free(negotiate);
}

int negotiate_submit(struct negotiate *negotiate, const struct submission *submission, struct hvd_error *err)
{
    int rc = down_apply_pending(negotiate, err);
    return rc == HVD_OK ? up_submit(negotiate, submission, err) : rc;
}

void negotiate_leave(struct negotiate *negotiate)
{
    if (negotiate->leaving_rank < 0)
        negotiate->leaving_rank = negotiate->params.rank;
}

int negotiate_from_child(struct negotiate *negotiate, int child, const void *bytes, size_t length,
                         struct hvd_error *err)
{
    struct wire_reader reader = {{bytes, length, false}, negotiate->params.size};
    struct wire_record record;
    int rc = down_apply_pending(negotiate, err);
    if (rc == HVD_OK)
        rc = wire_get(&reader, &record, err);
    while (rc == HVD_OK) {
        rc = up_receive(negotiate, child, &record, err);
        wire_clear(&record);
        if (rc == HVD_OK)
            rc = wire_get(&reader, &record, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

int negotiate_from_parent(struct negotiate *negotiate, const void *bytes, size_t length,
                          struct hvd_error *err)
{
    int rc = down_apply_pending(negotiate, err);
    if (rc == HVD_OK)
        rc = down_apply(negotiate, bytes, length, DOWN_FROM_PARENT, err);
    if (rc == HVD_OK && negotiate->in_unit)
        rc = error_set(err, HVD_ERR_SYSTEM, "a message of the parent ends within a unit of decisions");
    return rc;
}

int negotiate_get_message(struct negotiate *negotiate, int link, const void **bytesp, size_t *lengthp,
                          struct hvd_error *err)
{
    *lengthp = 0;
    if (link == TREE_PARENT && negotiate->params.root)
        return HVD_OK;
    if (link == TREE_PARENT) {
        int rc = up_write_message(negotiate, err);
        if (rc == HVD_OK && negotiate->up.length > 0) {
            *bytesp = negotiate->up.bytes;
            *lengthp = negotiate->up.length;
        }
        return rc;
    }
    struct outbox *outbox = &negotiate->outboxes[link - 1];
    if (outbox->writer.failed)
        return negotiate_no_memory(err);
    if (!outbox->taken && outbox->writer.length > 0) {
        outbox->taken = true;
        *bytesp = outbox->writer.bytes;
        *lengthp = outbox->writer.length;
    }
    return HVD_OK;
}

int negotiate_next(struct negotiate *negotiate, const struct decision **decisionp, struct hvd_error *err)
{
    *decisionp = NULL;
    if (negotiate->first_returned)
        release_decision(&negotiate->decisions[negotiate->decision_at++]);
    negotiate->first_returned = false;
    int rc = down_apply_pending(negotiate, err);
    if (rc != HVD_OK)
        return rc;
    if (negotiate->decision_at == negotiate->decision_count)
        return HVD_IN_PROGRESS;
    negotiate->first_returned = true;
    *decisionp = &negotiate->decisions[negotiate->decision_at];
    return HVD_OK;
}

void decision_compare(const struct decision *decision, struct desc_difference *difference)
{
    if (!desc_compare(decision->desc, decision->other, difference))
        desc_compare_backends(decision->desc, decision->backends, decision->other_backends, difference);
}
