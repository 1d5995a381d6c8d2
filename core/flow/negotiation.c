/* negotiation.c: from what was submitted to what is agreed, and from there into batches. */
#include <stdlib.h>
#include <string.h>

#include "flow/adasum.h"
#include "flow/stages.h"

/* ---- 1 queue -> 2 negotiate ------------------------------------------------------------------ */

static int say_leaving(struct loop *loop, struct hvd_error *err)
{
    struct desc *desc = desc_create(1);
    if (desc == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to say that this rank leaves");
    desc->kind = DESC_SHUTDOWN;
    memcpy(desc->tensors[0].name, DESC_SHUTDOWN_NAME, sizeof(DESC_SHUTDOWN_NAME));
    struct submission submission = {.desc = desc};
    loop->leave_said = true;
    negotiate_leave(loop->negotiate);
    int rc = negotiate_submit(loop->negotiate, &submission, err);
    desc_release(desc);
    return rc;
}

static bool holds_rank(const struct request *request, int rank)
{
    int count = (int)request->desc->tensors[0].shape[0];
    for (int i = 0; i < count; i++) {
        if (request->ranks[i] == rank)
            return true;
    }
    return false;
}

static int submit_request(struct loop *loop, struct request *request, bool more, struct hvd_error *err)
{
    const struct desc *desc = request->desc;
    struct submission submission = {
        .desc = desc, .number = request->number, .more = more, .planes = request->planes, .user = request};
    if (desc->kind == DESC_SET_ADD) {
        submission.member = holds_rank(request, loop->control->rank);
        submission.set_size = (int)desc->tensors[0].shape[0];
    }
    int rc = HVD_ERR_SET;
    if (teams_get(loop->teams, desc->set) != NULL)
        rc = negotiate_submit(loop->negotiate, &submission, err);
    if (rc != HVD_ERR_SET)
        return rc;
    struct hvd_error reason;
    error_set(&reason, HVD_ERR_SET, "process set %d was removed meanwhile", desc->set);
    stage_begins(loop);
    end_request(loop, request, HVD_ERR_SET, reason.text);
    return HVD_OK;
}

bool decide_submit(struct loop *loop, struct hvd_error *err, int *rcp)
{
    struct request *request = queue_take(loop->queue);
    struct request *next = NULL;
    bool moved = request != NULL;
    for (; request != NULL && *rcp == HVD_OK; request = next) {
        next = request->next;
        *rcp = submit_request(loop, request, next != NULL, err);
    }
    if (*rcp == HVD_OK && !loop->leave_said &&
        atomic_load_explicit(&loop->leave_asked, memory_order_acquire)) {
        *rcp = say_leaving(loop, err);
        moved = true;
    }
    return moved;
}

/* ---- 2 negotiate -> 3 batches ---------------------------------------------------------------- */

static bool room_for_items(struct decided *decided, int more)
{
    if (decided->count + more <= decided->capacity)
        return true;
    int capacity = 2 * decided->capacity + more + 64;
    struct fuse_item *items = reallocarray(decided->items, (size_t)capacity, sizeof(*items));
    if (items != NULL)
        decided->items = items;
    struct piece **pieces = reallocarray(decided->pieces, (size_t)capacity, sizeof(struct piece *));
    if (pieces != NULL)
        decided->pieces = pieces;
    if (items == NULL || pieces == NULL)
        return false;
    decided->capacity = capacity;
    return true;
}

static int no_memory(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
}

/* What this rank, which has joined, runs in place of what it did not submit. */
static int stand_in(const struct desc *desc, struct request **requestp, struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    desc_title(desc, title, sizeof(title));
    if (desc->kind != DESC_ALLREDUCE || !desc_joins(desc))
        return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on %s, which this rank did not submit",
                         title);
    struct request *request = request_create(desc);
    if (request == NULL)
        return no_memory(err);
    request->stand_in = true;
    for (int i = 0; i < request->piece_count; i++) {
        request->pieces[i].count = desc_count(&desc->tensors[i]);
        if (request->pieces[i].count < 0) {
            request_free(request);
            return error_set(err, HVD_ERR_SYSTEM, "the ranks agreed on %s, which is too large", title);
        }
    }
    *requestp = request;
    return HVD_OK;
}

/* All tensors of an operation that all ranks agreed to run. */
static int take_tensors(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    struct decided *decided = &loop->decided;
    struct request *request = decision->user;
    if (!room_for_items(decided, decision->desc->tensor_count))
        return no_memory(err);
    int rc = request == NULL ? stand_in(decision->desc, &request, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    request->decided = true;
    request->number = decision->number;
    for (int i = 0; i < request->piece_count; i++) {
        struct fuse_item *item = &decided->items[decided->count];
        *item = (struct fuse_item){.desc = request->desc, .index = i, .plane = decision->plane};
        item->bytes = batch_item_bytes(&request->pieces[i]);
        decided->pieces[decided->count++] = &request->pieces[i];
    }
    return HVD_OK;
}

static int take_run(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    struct request *request = decision->user;
    uint64_t agreed = teams_agree(loop->teams, decision->set);
    tuning_decided(loop, decision);
    if (request != NULL)
        trace_decided(loop->trace, &request->trace, agreed, loop->now_us);
    switch (decision->desc->kind) {
    case DESC_SHUTDOWN:
        loop->all_left = true;
        return HVD_OK;
    case DESC_JOIN:
        if (request != NULL && request->last_rankp != NULL)
            *request->last_rankp = decision->rank;
        break;
    case DESC_BARRIER:
        break;
    default:
        return take_tensors(loop, decision, err);
    }
    if (request != NULL)
        end_request(loop, request, HVD_OK, NULL);
    return HVD_OK;
}

static void append_batch(struct loop *loop, struct batch *batch)
{
    batch->next = NULL;
    *loop->batch_tail = batch;
    loop->batch_tail = &batch->next;
    loop->batch_count++;
    tuning_busy(loop);
}

/* The batch of the [i]th item, made where the item is its first. */
static struct batch *batch_of_item(struct loop *loop, struct batch **made, int i)
{
    const struct fuse_item *item = &loop->decided.items[i];
    struct batch **batchp = &made[item->batch];
    if (*batchp != NULL)
        return *batchp;
    *batchp = batch_create(teams_get(loop->teams, item->desc->set), item->plane, item->desc, item->index);
    if (*batchp == NULL)
        return NULL;
    (*batchp)->fusion_bytes = loop->settings.fusion_bytes;
    (*batchp)->travel.chunk_bytes = loop->settings.chunk_bytes;
    append_batch(loop, *batchp);
    return *batchp;
}

/* Cut what one unit decided into batches. Without memory the items that are in none stay where they are. */
static int fuse_items(struct loop *loop, struct hvd_error *err)
{
    struct decided *decided = &loop->decided;
    int done = 0;
    if (decided->count == 0)
        return HVD_OK;
    int count = fuse_plan(decided->items, decided->count, loop->settings.fusion_bytes);
    struct batch **made = calloc((size_t)count, sizeof(struct batch *));
    while (made != NULL && done < decided->count) {
        struct batch *batch = batch_of_item(loop, made, done);
        if (batch == NULL)
            break;
        batch_add(batch, decided->pieces[done++]);
    }
    decided->count -= done;
    memmove(decided->pieces, decided->pieces + done, (size_t)decided->count * sizeof(decided->pieces[0]));
    free(made);
    return decided->count == 0 ? HVD_OK : no_memory(err);
}

/* A set comes or goes behind what was decided before it. */
static int take_set(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    struct request *request = decision->user;
    bool removed = decision->kind == DECISION_SET_REMOVED;
    int rc = fuse_items(loop, err);
    if (rc != HVD_OK)
        return rc;
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return no_memory(err);
    batch->stage = removed ? BATCH_SET_REMOVE : BATCH_SET_ADD;
    batch->plane = -1;
    batch->set = decision->set;
    batch->planes = decision->planes;
    batch->request = request;
    request->decided = true;
    trace_decided(loop->trace, &request->trace, teams_agree(loop->teams, HVD_ALL_RANKS), loop->now_us);
    if (removed) {
        struct hvd_error reason;
        error_set(&reason, HVD_ERR_SET, "process set %d was removed", decision->set);
        batch->team = teams_take(loop->teams, decision->set);
        end_undecided(loop, decision->set, HVD_ERR_SET, reason.text);
    }
    append_batch(loop, batch);
    return HVD_OK;
}

static void take_leaving(struct loop *loop, const struct decision *decision)
{
    char name[300];
    struct hvd_error reason;
    roster_name(loop->planes.env.roster, decision->rank, name, sizeof(name));
    error_set(&reason, HVD_ERR_SHUTDOWN, "%s has called hvd_shutdown", name);
    queue_refuse(loop->queue, HVD_ERR_SHUTDOWN, reason.text);
    end_undecided(loop, QUEUE_ALL_SETS, HVD_ERR_SHUTDOWN, reason.text);
}

static int take_decision(struct loop *loop, const struct decision *decision, struct hvd_error *err)
{
    const struct roster *roster = loop->planes.env.roster;
    switch (decision->kind) {
    case DECISION_RUN:
        return take_run(loop, decision, err);
    case DECISION_MISMATCH:
    case DECISION_JOINED:
        loop->finished_some = true;
        finish_disagreement(loop->queue, loop->trace, roster, decision);
        return HVD_OK;
    case DECISION_SET_ADDED:
    case DECISION_SET_REMOVED:
        return take_set(loop, decision, err);
    case DECISION_LEAVING:
        take_leaving(loop, decision);
        return HVD_OK;
    case DECISION_TUNED:
        loop->settings = decision->settings;
        return HVD_OK;
    case DECISION_STALLED:
        stalled(loop, decision);
        return HVD_OK;
    }
    return HVD_OK;
}

int decide_take(struct loop *loop, struct hvd_error *err)
{
    const struct decision *decision = NULL;
    bool first = true;
    int rc = negotiate_next(loop->negotiate, &decision, err);
    while (rc == HVD_OK) {
        if (first)
            stage_begins(loop);
        first = false;
        rc = take_decision(loop, decision, err);
        if (rc == HVD_OK && decision->last)
            rc = fuse_items(loop, err);
        if (rc == HVD_OK)
            rc = negotiate_next(loop->negotiate, &decision, err);
    }
    return rc == HVD_IN_PROGRESS ? HVD_OK : rc;
}

void decide_abandon(struct loop *loop, int status, const char *reason)
{
    stage_begins(loop);
    for (int i = 0; i < loop->decided.count; i++)
        end_piece(loop, loop->decided.pieces[i], status, reason);
    loop->decided.count = 0;
}
