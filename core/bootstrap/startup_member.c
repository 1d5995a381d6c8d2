/* startup_member.c: what the members of a node do in the start: they follow their leader. */
#include "bootstrap/startup.h"

#include "bootstrap/card_exchange.h"
#include "bootstrap/peers_file.h"
#include "node/outcome.h"

/* A step of the start: come to its fence, and to as many more as the leader asks for. */
static int follow_step(struct startup *startup, int *valuep, struct hvd_error *err)
{
    int rc = HVD_OK;
    *valuep = OUTCOME_FENCE;
    while (rc == HVD_OK && (*valuep & OUTCOME_FENCE) != 0) {
        rc = startup_fence(startup, err);
        if (rc == HVD_OK)
            rc = node_await_outcome(startup->attached, ++startup->outcome_count, startup->deadline_us, valuep,
                                    err);
    }
    return rc;
}

/* Say who leads this rank. Leaders of few nodes do not ask for that. */
static int put_leader(const struct startup *startup, struct hvd_error *err)
{
    const struct node_card card = {.leader = startup->group.members[0].rank};
    const struct leader_exchange exchange = startup_exchange(startup);
    return exchange.peer_table->size > LEADERS_DIRECT ? card_exchange_put(&exchange, &card, err) : HVD_OK;
}

/* The leader knows all peers: take them over, and connect to the neighbours in the tree, which are on this
 * node. */
static int join_tree(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    const struct start_report *report = &startup->group.report;
    struct peers_summary summary;
    if (report->status != HVD_OK)
        return error_set(err, report->status, "%s", report->reason.text);
    int rc = startup_check_process_sets(startup, err);
    if (rc == HVD_OK)
        rc = peers_file_map(node_peers_file(startup->node), &bootstrap->peer_table, &summary, err);
    if (rc != HVD_OK)
        return rc;
    bootstrap->warns = startup->config->warnings != summary.warnings;
    bootstrap->settings = summary.settings;
    bootstrap->oversubscription = summary.oversubscription;
    return startup_connect_tree(startup, err);
}

int startup_follow(struct startup *startup, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int value = 0;
    int rc = put_leader(startup, err);
    if (rc == HVD_OK)
        rc = follow_step(startup, &value, err);
    if (rc != HVD_OK && (value & OUTCOME_GO_ON) == 0)
        return rc;
    int joined = rc == HVD_OK ? join_tree(startup, &why) : HVD_OK;
    node_report(startup->attached, joined, why.text);
    rc = follow_step(startup, &value, err);
    return joined == HVD_OK ? rc : error_set(err, joined, "%s", why.text);
}
