/* delivery.c: the queue of decisions for this rank, and the messages for its children. */
#include <stdlib.h>
#include <string.h>

#include "negotiate/state.h"

static void release_decision(struct decision *decision)
{
    desc_release(decision->desc);
    desc_release(decision->other);
    free((void *)decision->stall);
    decision->desc = NULL;
    decision->other = NULL;
    decision->stall = NULL;
}

int delivery_push(struct delivery *delivery, const struct decision *decision, struct hvd_error *err)
{
    if (delivery->decision_at == delivery->decision_count)
        delivery->decision_at = delivery->decision_count = 0;
    if (!negotiate_grow(&delivery->decisions, &delivery->decision_capacity, delivery->decision_count,
                        sizeof(*decision)))
        return negotiate_no_memory(err);
    struct stall_report *stall = decision->stall != NULL ? malloc(sizeof(*stall)) : NULL;
    if (decision->stall != NULL && stall == NULL)
        return negotiate_no_memory(err);
    if (stall != NULL)
        *stall = *decision->stall;
    if (decision->desc != NULL)
        desc_hold(decision->desc);
    if (decision->other != NULL)
        desc_hold(decision->other);
    delivery->decisions[delivery->decision_count] = *decision;
    delivery->decisions[delivery->decision_count++].stall = stall;
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
