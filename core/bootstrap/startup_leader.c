/* startup_leader.c: what a leader does in the start for its node: it exchanges cards with the other leaders,
 * finds the networks that join the nodes, and tells its members how each step went. */
#include "bootstrap/startup.h"

#include <stdlib.h>

#include "bootstrap/card_exchange.h"
#include "bootstrap/peers_file.h"
#include "net/nic_offer.h"
#include "node/outcome.h"

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

/* The members come along, and await one more outcome. */
static int fence_with_members(struct startup *startup, struct hvd_error *err)
{
    conclude(startup, HVD_OK, OUTCOME_FENCE, NULL);
    return startup_fence(startup, err);
}

/* The ranks of this node, for the leaders of the others. */
static int fill_card(const struct startup *startup, struct node_card *card, struct hvd_error *err)
{
    const struct node_group *group = &startup->group;
    int count = 0, attached_count = 1;
    card->leader = startup->bootstrap->job.rank;
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
    card->members[0] = (struct node_card_member){.rank = attached[0],
                                                 .pid = card->info->peer.pid,
                                                 .port = card->info->peer.port,
                                                 .message_port = card->info->peer.message_port};
    for (int i = 0; startup->node != NULL && i < group->member_count && count < attached_count; i++)
        if (group->members[i].rank == attached[count])
            card->members[count++] = group->members[i];
    card->member_count = count > 0 ? count : 1;
    free(attached);
    return HVD_OK;
}

/* Check what a leader can before it knows the others. [nics] is room for what it offers of its network. */
static void check_node(const struct startup *startup, struct node_card *card,
                       unsigned char nics[NIC_OFFER_BYTES])
{
    struct start_report *report = &card->report;
    report->step = "attached";
    if (report->status == HVD_OK)
        report->status = startup_check_process_sets(startup, &report->reason);
    if (report->status == HVD_OK)
        report->status =
            startup_check_memory(startup, card->member_count, startup->bootstrap->job.host, &report->reason);
    card->nics = nics;
    if (report->status == HVD_OK && card->member_count < startup->bootstrap->job.size)
        report->status =
            nic_discovery_offer(startup->config->nics, nics, &card->nics_length, &report->reason);
}

/* Publish this node's ranks and network interfaces, and read those of all nodes. Afterwards all leaders know
 * all peers. */
static int exchange_cards(struct startup *startup, const struct node_card *card, struct hvd_error *err)
{
    struct peer_table *peer_table = &startup->bootstrap->peer_table;
    struct card_exchange cards = {.exchange = startup_exchange(startup)};
    struct blob_list all = {NULL, 0, 0};
    struct hvd_error why = {""};
    int rc = card_exchange_put(&cards.exchange, card, err);
    if (rc == HVD_OK)
        rc = startup_fence(startup, err);
    if (rc != HVD_OK)
        return rc;
    int handed_on = card_exchange_hand_on(&cards, &why);
    if (card_exchange_has_two_rounds(&cards))
        rc = fence_with_members(startup, err);
    if (handed_on != HVD_OK)
        return error_set(err, handed_on, "%s", why.text);
    if (rc == HVD_OK)
        rc = card_exchange_read(&cards, card->info, peer_table, &startup->leaders, &all, err);
    if (rc == HVD_OK)
        rc = nic_discovery_open(&startup->nic_discovery, peer_table, &all, err);
    blob_list_free(&all);
    return rc;
}

static int introduce_node(struct startup *startup, struct hvd_error *err)
{
    struct node_card card = {.report = startup->group.report};
    unsigned char *nics = malloc(NIC_OFFER_BYTES);
    int rc = nics == NULL ? error_set(err, HVD_ERR_NO_MEMORY, "no memory for the card of this node")
                          : fill_card(startup, &card, err);
    if (rc == HVD_OK) {
        check_node(startup, &card, nics);
        rc = exchange_cards(startup, &card, err);
    }
    node_card_free(&card);
    free(nics);
    return rc;
}

/* Tell all leaders how this node fared in a step, and read into [reports] how the others did. If this one
 * cannot even do that, its user must see its own reason. */
static int exchange_reports(struct startup *startup, const struct start_report *mine,
                            struct blob_list *reports, struct hvd_error *err)
{
    const struct leader_exchange exchange = startup_exchange(startup);
    const struct leader_list *leaders = &startup->leaders;
    struct hvd_error why = {""};
    int handed_on = HVD_OK;
    int rc = start_report_put(&exchange, mine, err);
    if (rc == HVD_OK)
        rc = fence_with_members(startup, err);
    if (rc == HVD_OK && leader_exchange_has_two_rounds(leaders)) {
        handed_on = leader_exchange_hand_on(&exchange, leaders, mine->step, &why);
        rc = fence_with_members(startup, err);
    }
    if (handed_on != HVD_OK)
        rc = error_set(err, handed_on, "%s", why.text);
    if (rc == HVD_OK)
        return start_report_read(&exchange, leaders, mine->step, reports, err);
    return mine->status == HVD_OK ? rc : error_set(err, mine->status, "%s", mine->reason.text);
}

static bool has_other_networks(const struct startup *startup)
{
    return startup->nic_discovery.node_count > 1;
}

/* Try which network interfaces join the nodes, and read into [reports] what all nodes have found. */
static int probe_networks(struct startup *startup, struct blob_list *reports, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct nic_discovery *nic_discovery = &startup->nic_discovery;
    struct start_report mine = {.step = NIC_DISCOVERY_STEP};
    mine.status = nic_discovery_probe(nic_discovery, bootstrap->endpoint, &bootstrap->peer_table,
                                      startup_connect_deadline(startup), &mine.reason);
    mine.result = nic_discovery->result;
    mine.result_length = nic_discovery->result_length;
    return exchange_reports(startup, &mine, reports, err);
}

/* All leaders have probed: choose the networks that work on all nodes. */
static int choose_networks(struct startup *startup, const struct blob_list *reports, struct hvd_error *err)
{
    struct nic_discovery *nic_discovery = &startup->nic_discovery;
    struct bootstrap *bootstrap = startup->bootstrap;
    int rc = nic_discovery_choose(nic_discovery, &bootstrap->peer_table, reports, err);
    if (rc == HVD_OK)
        network_env_of_choice(nic_discovery->nodes, &nic_discovery->plan, &nic_discovery->choice,
                              nic_discovery->node, &bootstrap->settings);
    return rc;
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
    struct blob_list reports = {NULL, 0, 0};
    int rc = startup_fence(startup, err);
    if (rc == HVD_OK && mine->status == HVD_OK && startup->attached != NULL) {
        mine->status = node_first_failure(startup->attached, startup->deadline_us, &rank, &why);
        mine->names_ranks = mine->status != HVD_OK;
        peer_table_rank_name(peer_table, rank, who, sizeof(who));
        if (mine->status != HVD_OK)
            error_set(&mine->reason, mine->status, "%.100s cannot start: %s", who, why.text);
    }
    if (rc == HVD_OK && startup->leaders.count == 1)
        rc = start_report_result(peer_table, peer_table->rank, mine, err);
    else if (rc == HVD_OK)
        rc = exchange_reports(startup, mine, &reports, err);
    blob_list_free(&reports);
    conclude(startup, rc, 0, err);
    return rc;
}

int startup_lead(struct startup *startup, struct hvd_error *err)
{
    struct start_report mine = {.step = "connected"};
    struct blob_list reports = {NULL, 0, 0};
    int rc = introduce_node(startup, err);
    bool probes = rc == HVD_OK && has_other_networks(startup);
    if (probes)
        rc = probe_networks(startup, &reports, err);
    if (rc == HVD_OK && probes)
        mine.status = choose_networks(startup, &reports, &mine.reason);
    blob_list_free(&reports);
    if (rc != HVD_OK) {
        conclude(startup, rc, 0, err);
        return rc;
    }
    if (mine.status == HVD_OK)
        mine.status = hand_on_peers(startup, &mine.reason);
    conclude(startup, mine.status, OUTCOME_GO_ON, &mine.reason);
    if (mine.status == HVD_OK)
        mine.status = startup_connect_tree(startup, &mine.reason);
    return conclude_start(startup, &mine, err);
}
