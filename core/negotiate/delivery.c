/* delivery.c: the queue of decisions for this rank, and the messages for its children. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

static void release_decision(struct decision *decision)
{
    desc_release(decision->desc);
    desc_release(decision->other);
    free((void *)decision->stall);
    free((void *)decision->inputs.blocks);
    decision->desc = NULL;
    decision->other = NULL;
    decision->stall = NULL;
    decision->inputs.blocks = NULL;
}

/* A copy of [length] bytes, which is NULL if there are none. False without memory. */
static bool copy(const void *bytes, size_t length, const void **copyp)
{
    void *own = length > 0 ? malloc(length) : NULL;
    if (own != NULL)
        memcpy(own, bytes, length);
    *copyp = own;
    return own != NULL || length == 0;
}

int delivery_push(struct delivery *delivery, const struct decision *decision, struct hvd_error *err)
{
    if (delivery->decision_at == delivery->decision_count)
        delivery->decision_at = delivery->decision_count = 0;
    if (!negotiate_grow(&delivery->decisions, &delivery->decision_capacity, delivery->decision_count,
                        sizeof(*decision)))
        return negotiate_no_memory(err);
    const void *stall = NULL;
    const void *blocks = NULL;
    if (!copy(decision->stall, decision->stall != NULL ? sizeof(*decision->stall) : 0, &stall) ||
        !copy(decision->inputs.blocks, eager_bytes(&decision->inputs), &blocks)) {
        free((void *)stall);
        return negotiate_no_memory(err);
    }
    if (decision->desc != NULL)
        desc_hold(decision->desc);
    if (decision->other != NULL)
        desc_hold(decision->other);
    delivery->decisions[delivery->decision_count] = *decision;
    delivery->decisions[delivery->decision_count].stall = stall;
    delivery->decisions[delivery->decision_count++].inputs.blocks = blocks;
    delivery->unit_decided = true;
    return HVD_OK;
}

int delivery_next(struct delivery *delivery, const struct decision **decisionp)
{
    if (delivery->decision_at == delivery->decision_count)
        return HVD_IN_PROGRESS;
    delivery->first_returned = true;
    *decisionp = &delivery->decisions[delivery->decision_at];
    return HVD_OK;
}

void delivery_release_returned(struct delivery *delivery)
{
    if (delivery->first_returned)
        release_decision(&delivery->decisions[delivery->decision_at++]);
    delivery->first_returned = false;
}

void delivery_end_unit(struct delivery *delivery)
{
    if (delivery->unit_decided)
        delivery->decisions[delivery->decision_count - 1].last = true;
    delivery->unit_decided = false;
}

struct wire_writer *delivery_writer(struct delivery *delivery, int child)
{
    struct outbox *outbox = &delivery->outboxes[child];
    if (outbox->taken)
        wire_reset(&outbox->writer);
    outbox->taken = false;
    return &outbox->writer;
}

void delivery_forward(struct delivery *delivery, uint64_t member_parts, const unsigned char *bytes,
                      size_t length)
{
    for (int child = 0; child < delivery->child_count; child++) {
        if ((member_parts >> (child + 1) & 1) == 0)
            continue;
        wire_put_bytes(delivery_writer(delivery, child), bytes, length);
        delivery->outboxes[child].in_unit = true;
    }
}

/* The end of a unit goes to the children that got a record of it. */
void delivery_forward_end(struct delivery *delivery, const unsigned char *bytes, size_t length)
{
    for (int child = 0; child < delivery->child_count; child++) {
        if (delivery->outboxes[child].in_unit)
            wire_put_bytes(delivery_writer(delivery, child), bytes, length);
        delivery->outboxes[child].in_unit = false;
    }
}

void delivery_fini(struct delivery *delivery)
{
    for (size_t i = delivery->decision_at; i < delivery->decision_count; i++)
        release_decision(&delivery->decisions[i]);
    for (int i = 0; delivery->outboxes != NULL && i < delivery->child_count; i++)
        wire_free(&delivery->outboxes[i].writer);
    free(delivery->outboxes);
    free(delivery->decisions);
}

int delivery_take_message(struct delivery *delivery, int child, const void **bytesp, size_t *lengthp,
                          struct hvd_error *err)
{
    struct outbox *outbox = &delivery->outboxes[child];
    if (outbox->writer.failed)
        return negotiate_no_memory(err);
    if (!outbox->taken && outbox->writer.length > 0) {
        outbox->taken = true;
        *bytesp = outbox->writer.bytes;
        *lengthp = outbox->writer.length;
    }
    return HVD_OK;
}
