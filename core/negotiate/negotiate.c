/* negotiate.c: the calls of the negotiation: each passes its work to the stage that does it. */
#include "negotiate/negotiate.h"

#include <stdlib.h>
#include <string.h>

#include "negotiate/stages.h"

int negotiate_create(struct negotiate **negotiatep, const struct negotiate_params *params,
                     struct hvd_error *err)
{
    uint64_t all = (UINT64_C(2) << params->child_count) - 1;
    struct negotiate *negotiate = calloc(1, sizeof(*negotiate));
    if (negotiate == NULL)
        return negotiate_no_memory(err);
    negotiate->params = *params;
    negotiate->submit.params = &negotiate->params;
    negotiate->submit.sets.part_count = (size_t)params->child_count + 1;
    negotiate->submit.leaving_rank = -1;
    negotiate->delivery.child_count = params->child_count;
    negotiate->delivery.outboxes = calloc((size_t)params->child_count + 1, sizeof(struct outbox));
    negotiate->stall = (struct stall_stage){.submit = &negotiate->submit, .delivery = &negotiate->delivery};
    negotiate->up = (struct up_stage){.submit = &negotiate->submit, .stall = &negotiate->stall};
    negotiate->down = (struct down_stage){
        .submit = &negotiate->submit, .delivery = &negotiate->delivery, .stall = &negotiate->stall};
    negotiate->decide = (struct decide_stage){.submit = &negotiate->submit, .down = &negotiate->down};
    int rc = negotiate->delivery.outboxes == NULL
                 ? negotiate_no_memory(err)
                 : subtree_set_add(&negotiate->submit.sets, HVD_ALL_RANKS, all, params->root, err);
    if (rc != HVD_OK) {
        negotiate_destroy(negotiate);
        return rc;
    }
    *negotiatep = negotiate;
    return HVD_OK;
}

void negotiate_destroy(struct negotiate *negotiate)
{
    if (negotiate == NULL)
        return;
    delivery_fini(&negotiate->delivery);
    desc_release(negotiate->stall.parent.desc);
    submit_fini(&negotiate->submit);
    wire_free(&negotiate->up.message);
    wire_free(&negotiate->down.issue);
    wire_free(&negotiate->stall.notes);
    free(negotiate);
}

int negotiate_submit(struct negotiate *negotiate, const struct submission *submission, struct hvd_error *err)
{
    int rc = down_apply_pending(&negotiate->down, err);
    return rc == HVD_OK ? submit_own(&negotiate->submit, submission, err) : rc;
}

void negotiate_leave(struct negotiate *negotiate)
{
    if (negotiate->submit.leaving_rank < 0)
        negotiate->submit.leaving_rank = negotiate->params.rank;
}

int negotiate_from_child(struct negotiate *negotiate, int child, const void *bytes, size_t length,
                         struct hvd_error *err)
{
    int rc = down_apply_pending(&negotiate->down, err);
    return rc == HVD_OK ? up_receive(&negotiate->up, child, bytes, length, err) : rc;
}

int negotiate_from_parent(struct negotiate *negotiate, const void *bytes, size_t length,
                          struct hvd_error *err)
{
    int rc = down_apply_pending(&negotiate->down, err);
    negotiate->stall.parent.heard = true;
    return rc == HVD_OK ? down_receive(&negotiate->down, bytes, length, err) : rc;
}

int negotiate_decide(struct negotiate *negotiate, struct hvd_error *err)
{
    return decide_all(&negotiate->decide, err);
}

void negotiate_tune(struct negotiate *negotiate, const struct tuned_settings *settings)
{
    decide_tune(&negotiate->decide, settings);
}

int negotiate_get_message(struct negotiate *negotiate, int link, const void **bytesp, size_t *lengthp,
                          struct hvd_error *err)
{
    *lengthp = 0;
    if (link == TREE_PARENT && negotiate->params.root)
        return HVD_OK;
    if (link == TREE_PARENT)
        return up_write_message(&negotiate->up, bytesp, lengthp, err);
    return delivery_take_message(&negotiate->delivery, link - 1, bytesp, lengthp, err);
}

int64_t negotiate_deadline(struct negotiate *negotiate, int64_t now_us)
{
    return stall_deadline(&negotiate->stall, now_us);
}

void negotiate_restart_times(struct negotiate *negotiate)
{
    stall_restart_times(&negotiate->stall);
}

int negotiate_check_stalls(struct negotiate *negotiate, int64_t now_us, struct hvd_error *err)
{
    if (stall_deadline(&negotiate->stall, now_us) > now_us)
        return HVD_OK;
    int rc = down_apply_pending(&negotiate->down, err);
    return rc == HVD_OK ? stall_check(&negotiate->stall, now_us, err) : rc;
}

int negotiate_report_stall(struct negotiate *negotiate, const struct stalled_batch *stalled_batch,
                           struct hvd_error *err)
{
    int rc = down_apply_pending(&negotiate->down, err);
    return rc == HVD_OK ? stall_report_batch(&negotiate->stall, stalled_batch, err) : rc;
}

int negotiate_next(struct negotiate *negotiate, const struct decision **decisionp, struct hvd_error *err)
{
    *decisionp = NULL;
    delivery_release_returned(&negotiate->delivery);
    int rc = down_apply_pending(&negotiate->down, err);
    return rc == HVD_OK ? delivery_next(&negotiate->delivery, decisionp) : rc;
}

void decision_compare(const struct decision *decision, struct desc_difference *difference)
{
    if (!desc_compare(decision->desc, decision->other, difference))
        desc_compare_backends(decision->desc, decision->backends, decision->other_backends, difference);
}
