/* startup_leader.c: what a leader does in the start for its node: it exchanges cards with the other leaders,
 * finds the networks that join the nodes, and tells its members how each step went. */
#include "bootstrap/startup.h"

#include <stdlib.h>

#include "bootstrap/node_card.h"
#include "bootstrap/peers_file.h"
#include "node/outcome.h"

/* Try which network interfaces join the nodes. */
static int probe_network(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    return nic_discovery_probe(&startup->nic_discovery, bootstrap->endpoint, &bootstrap->peer_table,
                               &startup->wireup, startup_connect_deadline(startup), err);
}

/* All leaders have probed: choose the networks that work on all nodes. */
static int choose_networks(struct startup *startup, struct hvd_error *err)
{
    struct nic_discovery *nic_discovery = &startup->nic_discovery;
    struct bootstrap *bootstrap = startup->bootstrap;
    int rc = nic_discovery_choose(nic_discovery, &bootstrap->peer_table, &startup->wireup,
                                  startup->deadline_us, err);
    if (rc == HVD_OK)
        network_env_of_choice(nic_discovery->nodes, &nic_discovery->plan, &nic_discovery->choice,
                              nic_discovery->node, &bootstrap->settings);
    return rc;
}

/* The ranks of this node, for the leaders of the others. */
static int fill_card(const struct startup *startup, struct node_card *card, struct hvd_error *err)
{
    const struct node_group *group = &startup->group;
    int count = 0, attached_count = 1;
    card->warnings = startup->config->warnings;
    card->info = malloc(sizeof(*card->info));
    card->members = calloc((size_t)group->member_count + 1, sizeof(*card->members));
    int *attached = malloc(((size_t)group->member_count + 1) * sizeof(*attached));
    if (card->info == NULL || card->members == NULL || attached == NULL) {
        free(attached);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", group->member_count);
    }
    *card->info = *startup->peer_info;
    attached[0] = startup->bootstrap->job.rank;
    if (startup->node != NULL)
        attached_count = node_attached_ranks(startup->node, attached);
    card->members[0] = (struct node_card_member){attached[0], card->info->peer.pid, card->info->peer.port};
    for (int i = 0; startup->node != NULL && i < group->member_count && count < attached_count; i++)
        if (group->members[i].rank == attached[count])
            card->members[count++] = group->members[i];
    card->member_count = count > 0 ? count : 1;
    free(attached);
    return HVD_OK;
}

/* Check what a leader can, and publish this node's ranks and network interfaces. Afterwards all leaders know
 * all peers. */
static int exchange_cards(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct node_card card = {.report = startup->group.report};
    struct start_report *report = &card.report;
    int rc = fill_card(startup, &card, err);
    if (rc != HVD_OK) {
        node_card_free(&card);
        return rc;
    }
    report->step = "attached";
    if (report->status == HVD_OK)
        report->status = startup_check_process_sets(startup, &report->reason);
    if (report->status == HVD_OK)
        report->status =
            startup_check_memory(startup, card.member_count, startup->bootstrap->job.host, &report->reason);
    if (report->status == HVD_OK && card.member_count < bootstrap->job.size)
        report->status = nic_discovery_publish(&bootstrap->peer_table, &startup->wireup,
                                               startup->config->nics, &report->reason);
    rc = node_card_exchange(&bootstrap->peer_table, &startup->leaders, &startup->wireup, &card,
                            startup->deadline_us, err);
    node_card_free(&card);
    if (rc == HVD_OK)
        rc = nic_discovery_open(&startup->nic_discovery, &bootstrap->peer_table, err);
    return rc;
}

static bool has_other_networks(const struct startup *startup)
{
    return startup->nic_discovery.node_count > 1;
}

/* Tell the members how a step went; without members it does nothing. Those of rank 0 need not repeat what it
 * says. */
static void conclude(const struct startup *startup, int status, int value, const struct hvd_error *err)
{
    struct hvd_error why = {""};
    if (startup->attached == NULL)
        return;
    if (status != HVD_OK && startup->bootstrap->job.rank == 0)
        start_report_refer(&startup->bootstrap->peer_table, status, &why);
    else if (status != HVD_OK)
        why = *err;
    node_conclude(startup->attached, status, value, why.text);
}

static int probe_networks(struct startup *startup, struct hvd_error *err)
{
    struct start_report mine = {.step = "probed"};
    mine.status = probe_network(startup, &mine.reason);
    return start_report_exchange(&startup->leaders, &startup->bootstrap->peer_table, &startup->wireup, &mine,
                                 startup->deadline_us, err);
}

/* Hand the members all that they need to know of other ranks. */
static int hand_on_peers(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct peers_summary summary = {.settings = bootstrap->settings, .warnings = startup->leaders.warnings};
    bootstrap->warns = bootstrap->job.rank == 0 || startup->config->warnings != summary.warnings;
    if (startup->node == NULL)
        return HVD_OK;
    int rc = node_oversubscription(startup->node, &summary.oversubscription, err);
    bootstrap->oversubscription = summary.oversubscription;
    if (rc == HVD_OK)
        rc = peers_file_write(node_peers_file(startup->node), &bootstrap->peer_table, &summary, err);
    if (rc == HVD_OK)
        rc = peers_file_map(node_peers_file(startup->node), &bootstrap->peer_table, &summary, err);
    return rc;
}

/* All ranks report how the last step went, the members of this node in its memory: find out if the job has
 * started, and tell them. */
static int conclude_start(struct startup *startup, struct start_report *mine, struct hvd_error *err)
{
    const struct peer_table *peer_table = &startup->bootstrap->peer_table;
    char who[300];
    int rank = 0;
    struct hvd_error why = {""};
    int rc = startup_fence(startup, err);
    if (rc == HVD_OK && mine->status == HVD_OK && startup->attached != NULL) {
        mine->status = node_first_failure(startup->attached, startup->deadline_us, &rank, &why);
        mine->names_ranks = mine->status != HVD_OK;
        peer_table_rank_name(peer_table, rank, who, sizeof(who));
        if (mine->status != HVD_OK)
            error_set(&mine->reason, mine->status, "%.100s cannot start: %s", who, why.text);
    }
    if (rc == HVD_OK)
        rc = startup->leaders.count == 1
                 ? start_report_result(peer_table, peer_table->rank, mine, err)
                 : start_report_exchange(&startup->leaders, peer_table, &startup->wireup, mine,
                                         startup->deadline_us, err);
    conclude(startup, rc, 0, err);
    return rc;
}

int startup_lead(struct startup *startup, struct hvd_error *err)
{
    struct start_report mine = {.step = "connected"};
    int rc = exchange_cards(startup, err);
    int value = startup->leaders.count > 1 ? OUTCOME_MANY_NODES : 0;
    bool probes = rc == HVD_OK && has_other_networks(startup);
    if (probes) {
        conclude(startup, HVD_OK, value | OUTCOME_PROBE, NULL);
        rc = probe_networks(startup, err);
    }
    if (rc != HVD_OK) {
        conclude(startup, rc, value, err);
        return rc;
    }
    if (probes)
        mine.status = choose_networks(startup, &mine.reason);
    if (mine.status == HVD_OK)
        mine.status = hand_on_peers(startup, &mine.reason);
    conclude(startup, mine.status, value | OUTCOME_GO_ON, &mine.reason);
    if (mine.status == HVD_OK)
        mine.status = startup_connect_tree(startup, &mine.reason);
    return conclude_start(startup, &mine, err);
}
