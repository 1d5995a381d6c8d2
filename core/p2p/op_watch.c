/* op_watch.c: times sends and receives by the bytes that move, and finds those that have not moved for too
 * long. */
#include "base/clock.h"
#include "p2p/p2p_state.h"

/* A rank that looks this much later than it had planned was stopped itself, perhaps with the whole job. So it
 * cannot tell how long others have done nothing. */
#define STOPPED_US INT64_C(1500000)

#define LOOK_PAUSE_US INT64_C(100000) /* between two looks, which go through all ops */

/* Every round compares the time of a look with the coarse clock, which is cheap and this late at most. */
#define COARSE_TICK_US 10000

/* ---- How an op stands ---- */

struct standing {
    int rank; /* the other end; HVD_ANY_SOURCE */
    enum p2p_wait wait;
    int64_t moved_bytes;
};

static struct standing standing_of_send(const struct p2p *p2p, const struct p2p_op *op)
{
    struct standing standing = {.rank = op->to, .wait = P2P_WAIT_PROGRAM};
    const struct channel *channel = p2p->outgoing[op->to];
    if (channel != NULL && channel->establishment != NULL)
        standing.wait = P2P_WAIT_CONNECTION;
    else if (op->out.queued || op->via != NULL)
        standing.wait = P2P_WAIT_BYTES;
    standing.moved_bytes = (int64_t)op->out.sent;
    return standing;
}

/* Does [channel] owe this rank bytes for the receive [op]? */
static bool brings(const struct channel *channel, const struct p2p_op *op)
{
    const struct payload *payload = &channel->payload;
    const struct p2p_op *taker;
    if (payload->op == op || (payload->arrival != NULL && payload->arrival->taker == op))
        return true;
    for (taker = TAILQ_FIRST(&channel->offers); taker != NULL && taker != op; taker = TAILQ_NEXT(taker, link))
        continue;
    if (taker == NULL)
        for (taker = TAILQ_FIRST(&channel->reads); taker != NULL && taker != op;
             taker = TAILQ_NEXT(taker, link))
            continue;
    return taker != NULL;
}

static struct standing standing_of_receive(const struct p2p *p2p, const struct p2p_op *op)
{
    struct standing standing = {.rank = op->envelope.source, .wait = P2P_WAIT_PROGRAM};
    const struct channel *channel;
    if (op->via != NULL)
        return (struct standing){.rank = op->via->rank, .wait = P2P_WAIT_BYTES};
    for (channel = LIST_FIRST(&p2p->channels); channel != NULL; channel = LIST_NEXT(channel, link)) {
        if (channel->outgoing || !brings(channel, op))
            continue;
        standing.rank = channel->rank;
        standing.wait = P2P_WAIT_BYTES;
        standing.moved_bytes = channel->payload.op == op ? op->bytes - channel->payload.left : op->read_bytes;
    }
    return standing;
}

static struct standing standing_of(const struct p2p *p2p, const struct p2p_op *op)
{
    if (op->held)
        return (struct standing){.rank = p2p->params.peer_table->rank, .wait = P2P_WAIT_STREAM};
    return op->direction == P2P_SEND ? standing_of_send(p2p, op) : standing_of_receive(p2p, op);
}

/* ---- Times ---- */

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* When [limit_us] is over, or over once more: INT64_MAX if there is no limit. */
static int64_t end_of(int64_t limit_us, int64_t since_us, int64_t now_us)
{
    if (limit_us <= 0)
        return INT64_MAX;
    return since_us + limit_us > now_us ? since_us + limit_us : now_us + limit_us;
}

static int64_t next_due(const struct p2p *p2p, const struct p2p_op *op, int64_t now_us)
{
    const struct p2p_limits *limits = &p2p->params.limits;
    int64_t warn_us = end_of(repeat_due_us(&op->watch.repeat, limits->warn_us), op->watch.since_us, now_us);
    int64_t abort_us = end_of(limits->abort_us, op->watch.since_us, now_us);
    return earlier(warn_us, earlier(abort_us, end_of(limits->hang_us, op->watch.since_us, now_us)));
}

static void restart(struct p2p_op *op, int64_t now_us)
{
    op->watch.since_us = now_us;
    op->watch.repeat = (struct repeat){0};
}

void op_watch_begin(struct p2p *p2p, struct p2p_op *op)
{
    int64_t now_us = clock_coarse_us();
    op->watch.wait = P2P_WAIT_PROGRAM;
    op->watch.moved_bytes = 0;
    restart(op, now_us);
    TAILQ_INSERT_TAIL(&p2p->begun, op, watch.link);
    int64_t due_us = next_due(p2p, op, now_us);
    if (due_us >= p2p->look_at_us)
        return;
    p2p->look_at_us = due_us;
    p2p->look_set_us = now_us;
}

void op_watch_end(struct p2p *p2p, struct p2p_op *op)
{
    TAILQ_REMOVE(&p2p->begun, op, watch.link);
    if (TAILQ_EMPTY(&p2p->begun))
        p2p->look_at_us = INT64_MAX;
}

int64_t op_watch_deadline(const struct p2p *p2p)
{
    return p2p->look_at_us == INT64_MAX ? INT64_MAX : p2p->look_at_us + COARSE_TICK_US;
}

/* ---- Looks ---- */

static bool is_over(int64_t limit_us, int64_t since_us, int64_t now_us)
{
    return limit_us > 0 && now_us - since_us >= limit_us;
}

/* Once this rank leaves, the programs of others may take all their time. */
static bool must_abort(const struct p2p *p2p, const struct p2p_op *op, int64_t now_us)
{
    const struct p2p_limits *limits = &p2p->params.limits;
    bool hangs = op->watch.wait != P2P_WAIT_PROGRAM && op->watch.wait != P2P_WAIT_STREAM;
    if (hangs && is_over(limits->hang_us, op->watch.since_us, now_us))
        return true;
    return (hangs || !p2p->leaving) && is_over(limits->abort_us, op->watch.since_us, now_us);
}

/* Has [op] moved since the last look? */
static bool has_moved(struct p2p_op *op, const struct standing *standing)
{
    bool moved = op->watch.wait != standing->wait || op->watch.moved_bytes != standing->moved_bytes;
    op->watch.wait = standing->wait;
    op->watch.moved_bytes = standing->moved_bytes;
    return moved;
}

/* Enter [op] into [stalled] where it is due: one that must end the job before any other, then the first. */
static void look_at(struct p2p *p2p, struct p2p_op *op, int64_t now_us, struct p2p_stalled *stalled)
{
    const struct standing standing = standing_of(p2p, op);
    if (has_moved(op, &standing)) {
        restart(op, now_us);
        return;
    }
    bool aborts = must_abort(p2p, op, now_us);
    int64_t warn_us = p2p->params.limits.warn_us, waited_us = now_us - op->watch.since_us;
    bool warns = warn_us > 0 && repeat_tell(&op->watch.repeat, warn_us, waited_us);
    if (!aborts && !warns)
        return;
    stalled->others++;
    if (stalled->op != NULL && (stalled->must_abort || !aborts))
        return;
    stalled->op = op;
    stalled->rank = standing.rank;
    stalled->wait = standing.wait;
    stalled->waited_us = waited_us;
    stalled->must_abort = aborts;
}

static bool was_stopped(const struct p2p *p2p, int64_t now_us)
{
    int64_t planned_us = p2p->look_at_us > p2p->look_set_us ? p2p->look_at_us : p2p->look_set_us;
    return now_us - planned_us > STOPPED_US;
}

bool p2p_find_stalled(struct p2p *p2p, struct p2p_stalled *stalled)
{
    *stalled = (struct p2p_stalled){.others = -1};
    if (p2p->look_at_us == INT64_MAX || clock_coarse_us() < p2p->look_at_us)
        return false;
    int64_t now_us = clock_us(), due_us = INT64_MAX;
    bool stopped = was_stopped(p2p, now_us);
    struct p2p_op *op;
    for (op = TAILQ_FIRST(&p2p->begun); op != NULL; op = TAILQ_NEXT(op, watch.link)) {
        if (stopped)
            restart(op, now_us);
        else
            look_at(p2p, op, now_us, stalled);
        due_us = earlier(due_us, next_due(p2p, op, now_us));
    }
    p2p->look_at_us = due_us < now_us + LOOK_PAUSE_US ? now_us + LOOK_PAUSE_US : due_us;
    p2p->look_set_us = now_us;
    return stalled->op != NULL;
}
