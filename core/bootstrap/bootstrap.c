/* bootstrap.c: the start of a job as a list of steps, from wire-up to a control tree that works. */
#include "bootstrap/bootstrap.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/rank_list.h"
#include "bootstrap/memory_budget.h"
#include "bootstrap/node_card.h"
#include "bootstrap/peer_exchange.h"
#include "bootstrap/peers_file.h"
#include "control/mailbox.h"
#include "control/tree.h"
#include "net/seal.h"
#include "node/node.h"
#include "node/outcome.h"
#include "bootstrap/sub_job.h"
#include "bootstrap/start_report.h"
#include "bootstrap/nic_discovery.h"

#define REPORT_RESERVE_US \
    INT64_C(1000000) /* reserved from the time to connect, to tell all ranks which rank was not reached */

#define FEWEST_DESCRIPTORS 8 /* with fewer left, a rank cannot connect by TCP either */

/* What a leader's outcome says besides its status. */
enum outcome_value {
    OUTCOME_PROBE = 1,      /* another fence follows, and another outcome */
    OUTCOME_MANY_NODES = 2, /* leaders of several nodes report to each other: one fence more */
    OUTCOME_GO_ON = 4       /* only this node failed: the others learn it after the next step */
};

/* How long rank 0 has to report a failed start before the others do: more where ranks share a node. */
#define SPEAK_MS      500
#define SPEAK_RANK_MS 20
#define SPEAK_MOST_MS 10000

/* The start of a job under way. [bootstrap] is complete as far as the steps have come. */
struct startup {
    struct bootstrap *bootstrap;
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_start *start;
    int64_t deadline_us;
    struct wireup wireup;
    struct peer_info *peer_info; /* of this rank */
    struct node_group group;
    struct leader_list leaders;
    struct node *node;      /* owned until control has it */
    struct node *attached;  /* the same, as long as it lives; NULL: this rank shares no memory */
    uint32_t outcome_count; /* on a member: outcomes of its leader so far */
    struct nic_discovery nic_discovery;
};

/* Publish this rank's peer info, and find out which ranks may share memory with it. */
static int exchange_peer_info(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    int set_count = startup->start->set_count < 0 ? 0 : startup->start->set_count;
    startup->peer_info = malloc(sizeof(*startup->peer_info));
    if (startup->peer_info == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for this rank's peer info");
    int rc = endpoint_open(&bootstrap->endpoint, startup->config->lease_us, startup->log, err);
    if (rc != HVD_OK)
        return rc;
    peer_info_fill(startup->peer_info, bootstrap->job.host, endpoint_port(bootstrap->endpoint),
                   startup->config);
    rc = peer_info_fill_start(startup->peer_info, bootstrap->launcher_ranks, bootstrap->job.size,
                              bootstrap->job.rank, set_count);
    if (rc != HVD_OK)
        return error_set(err, rc, "no memory for a list of %d ranks", bootstrap->job.size);
    rc = job_key_find_guard(&startup->peer_info->key_guard, err);
    if (rc != HVD_OK)
        return rc;
    return peer_exchange(&bootstrap->peer_table, &startup->wireup, startup->peer_info, startup->deadline_us,
                         &startup->group, err);
}

static int check_memory(const struct startup *startup, int rank_count, const char *host,
                        struct hvd_error *err)
{
    struct memory_budget budget;
    memory_budget_read(&budget);
    return memory_budget_check(&budget, startup->config->fusion_bytes, rank_count, host, err);
}

/* Where all ranks are on this node, [job] shows at once that they need too much memory: no need to wait until
 * all have come. */
static int check_memory_alone(struct startup *startup, const struct hvd_job *job, struct hvd_error *err)
{
    int rc = job->local_size == job->size ? check_memory(startup, job->size, job->host, err) : HVD_OK;
    if (rc != HVD_OK)
        startup->bootstrap->job = *job; /* await_turn_to_speak needs it */
    return rc;
}

/* Check the process sets of the start, as far as one rank can. */
static int check_process_sets(const struct startup *startup, struct hvd_error *err)
{
    const struct hvd_start *start = startup->start;
    int rc = HVD_OK;
    if (start->set_count < 0)
        return error_set(err, HVD_ERR_INVALID, "hvd_init_with: set_count is %d; expected 0 or more",
                         start->set_count);
    if (start->set_count > 0 && start->sets == NULL)
        return error_set(err, HVD_ERR_INVALID, "hvd_init_with: set_count is %d, but sets is NULL",
                         start->set_count);
    for (int i = 0; rc == HVD_OK && i < start->set_count; i++) {
        char what[64];
        snprintf(what, sizeof(what), "hvd_init_with: sets[%d]", i);
        rc = rank_list_check(&start->sets[i], startup->bootstrap->job.size, what, err);
    }
    return rc;
}

/* Attach this rank to its group's shared memory. If that fails it uses TCP. The leader says once why it made
 * no memory. */
static int attach(struct startup *startup, struct hvd_error *err)
{
    const struct node_group *group = &startup->group;
    struct hvd_error why = {""};
    int64_t now_us = clock_us();
    bool leads = group->members[0].rank == startup->bootstrap->job.rank;
    if (leads && group->member_count == 1)
        return HVD_OK;
    int *members = malloc((size_t)group->member_count * sizeof(*members));
    if (members == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", group->member_count);
    for (int i = 0; i < group->member_count; i++)
        members[i] = group->members[i].rank;
    /* half of the time that is left, so that ranks that cannot attach can still connect */
    int rc = node_attach(&startup->node, &startup->bootstrap->peer_table, members, group->member_count,
                         now_us + (startup->deadline_us - now_us) / 2, &why);
    free(members);
    startup->attached = startup->node;
    if (rc != HVD_OK && descriptors_check(FEWEST_DESCRIPTORS, "cannot reach the other ranks", err) != HVD_OK)
        return HVD_ERR_NO_MEMORY; /* TCP needs more: fail now, and not when the others have waited */
    if (rc != HVD_OK)
        log_write(startup->log, rc == HVD_ERR_UNSUPPORTED ? LOG_INFO : LOG_WARN, "join",
                  "no shared memory with the other ranks of this node, TCP instead: %s", why.text);
    return HVD_OK;
}

static bool leads_node(const struct startup *startup)
{
    return startup->node == NULL || node_leads(startup->node);
}

/* Reserves some time, so that all ranks learn which rank was not reached. */
static int64_t connect_deadline(const struct startup *startup)
{
    int64_t spare_us = (startup->deadline_us - clock_us()) / 4;
    return startup->deadline_us - (spare_us < REPORT_RESERVE_US ? spare_us : REPORT_RESERVE_US);
}

/* ---- What a leader does for its node ---- */

/* Try which network interfaces join the nodes. */
static int probe_network(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    return nic_discovery_probe(&startup->nic_discovery, bootstrap->endpoint, &bootstrap->peer_table,
                               &startup->wireup, connect_deadline(startup), err);
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

/* Connect to the parent and children on other nodes; the sockets go into [link_fds], their seals into
 * [link_seals]. */
static int connect_links(struct startup *startup, int link_fds[TREE_MAX_LINKS],
                         struct seal *link_seals[TREE_MAX_LINKS], struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    const struct tree_shape *shape = &bootstrap->shape;
    struct endpoint_connection wants[TREE_MAX_LINKS];
    int want_links[TREE_MAX_LINKS] = {0}, want_count = 0;
    for (int link = 0; link < TREE_MAX_LINKS; link++) {
        link_fds[link] = -1;
        link_seals[link] = NULL;
    }
    for (int link = TREE_PARENT; link <= shape->child_count; link++) {
        int rank = link == TREE_PARENT ? shape->parent : shape->child_ranks[link - 1];
        if (rank < 0 || bootstrap->peer_table.node_of_rank[rank] == shape->leader)
            continue;
        want_links[want_count] = link;
        wants[want_count++] = (struct endpoint_connection){
            .rank = rank, .purpose = ENDPOINT_CONTROL, .connect = link == TREE_PARENT, .fd = -1};
    }
    int rc = endpoint_establish(bootstrap->endpoint, &bootstrap->peer_table, wants, want_count,
                                connect_deadline(startup), err);
    for (int i = 0; rc == HVD_OK && i < want_count; i++) {
        link_fds[want_links[i]] = wants[i].fd;
        link_seals[want_links[i]] = wants[i].seal;
    }
    return rc;
}

/* All peers are known: build the tree, connect its links, and open control on them. */
static int connect_tree(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct peer_table *peer_table = &bootstrap->peer_table;
    int link_fds[TREE_MAX_LINKS];
    struct seal *link_seals[TREE_MAX_LINKS];
    int rc = tree_shape_of_rank(peer_table->node_of_rank, peer_table->size, peer_table->rank,
                                &bootstrap->shape, err);
    if (rc == HVD_OK)
        rc = connect_links(startup, link_fds, link_seals, err);
    if (rc != HVD_OK)
        return rc;
    if (bootstrap->shape.local_size == 1) {
        node_close(startup->node);
        startup->node = startup->attached = NULL;
    }
    bootstrap->arena = node_arena(startup->node);
    bootstrap->windows = node_take_windows(startup->node);
    rc = control_open(&bootstrap->control, peer_table, &bootstrap->shape, startup->node, link_fds, err);
    if (rc == HVD_OK) {
        startup->node = NULL; /* control owns it now */
        control_seal(bootstrap->control, link_seals);
    }
    for (int link = 0; rc != HVD_OK && link < TREE_MAX_LINKS; link++)
        seal_free(link_seals[link]);
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
        report->status = check_process_sets(startup, &report->reason);
    if (report->status == HVD_OK)
        report->status =
            check_memory(startup, card.member_count, startup->bootstrap->job.host, &report->reason);
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
    int rc = startup->wireup.ops->fence(startup->wireup.state, startup->deadline_us, err);
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

/* The start of a rank that acts for its node. */
static int lead(struct startup *startup, struct hvd_error *err)
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
        mine.status = connect_tree(startup, &mine.reason);
    return conclude_start(startup, &mine, err);
}

/* ---- What the members of a node do ---- */

static int await_outcome(struct startup *startup, int *valuep, struct hvd_error *err)
{
    return node_await_outcome(startup->attached, ++startup->outcome_count, startup->deadline_us, valuep, err);
}

static int fence(struct startup *startup, struct hvd_error *err)
{
    return startup->wireup.ops->fence(startup->wireup.state, startup->deadline_us, err);
}

/* The leader knows all peers: take them over, and connect to the neighbours in the tree, which are on this
 * node. */
static int join_tree(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct peers_summary summary;
    int rc = check_process_sets(startup, err);
    if (rc == HVD_OK)
        rc = peers_file_map(node_peers_file(startup->node), &bootstrap->peer_table, &summary, err);
    if (rc != HVD_OK)
        return rc;
    bootstrap->warns = startup->config->warnings != summary.warnings;
    bootstrap->settings = summary.settings;
    bootstrap->oversubscription = summary.oversubscription;
    return connect_tree(startup, err);
}

/* The start of a rank that another one acts for. */
static int follow(struct startup *startup, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int value = 0;
    int rc = fence(startup, err);
    if (rc == HVD_OK)
        rc = await_outcome(startup, &value, err);
    if (rc == HVD_OK && (value & OUTCOME_PROBE) != 0) {
        rc = fence(startup, err);
        if (rc == HVD_OK)
            rc = await_outcome(startup, &value, err);
    }
    if (rc != HVD_OK && (value & OUTCOME_GO_ON) == 0)
        return rc;
    int joined = rc == HVD_OK ? join_tree(startup, &why) : HVD_OK;
    node_report(startup->attached, joined, why.text);
    rc = fence(startup, err);
    if (rc == HVD_OK && (value & OUTCOME_MANY_NODES) != 0)
        rc = fence(startup, err);
    if (rc == HVD_OK)
        rc = await_outcome(startup, &value, err);
    return joined == HVD_OK ? rc : error_set(err, joined, "%s", why.text);
}

/* ---- The start as a whole ---- */

/* The most fences of start_many_ranks: for the peer infos, for the nodes' cards, after the probe, after
 * connecting, for the leaders' reports, and at the end. */
#define MAX_FENCES 6

static int start_many_ranks(struct startup *startup, struct hvd_error *err)
{
    int rc = exchange_peer_info(startup, err);
    if (rc == HVD_OK)
        rc = attach(startup, err);
    if (rc == HVD_OK)
        rc = leads_node(startup) ? lead(startup, err) : follow(startup, err);
    if (rc == HVD_OK) /* all leaders have read our report: wire-up may end */
        rc = fence(startup, err);
    return rc;
}

/* A job of one rank: the same objects, without connections. */
static int start_single_rank(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct peer_table *peer_table = &bootstrap->peer_table;
    struct mailbox_world *world = NULL;
    bootstrap->warns = true;
    memcpy(peer_table->peers[0].host, bootstrap->job.host, sizeof(peer_table->peers[0].host));
    peer_table->peers[0].pid = getpid();
    int rc = bootstrap->launcher_ranks == NULL ? HVD_OK : exchange_peer_info(startup, err);
    endpoint_close(
        bootstrap->endpoint); /* was open for the exchange only, which finds ranks with another list */
    bootstrap->endpoint = NULL;
    if (rc == HVD_OK)
        rc = check_process_sets(startup, err);
    if (rc == HVD_OK)
        rc = check_memory(startup, 1, bootstrap->job.host, err);
    if (rc == HVD_OK)
        rc = tree_shape_of_rank(peer_table->node_of_rank, 1, 0, &bootstrap->shape, err);
    if (rc == HVD_OK)
        rc = mailbox_world_open(&world, peer_table->node_of_rank, 1, err);
    if (rc == HVD_OK)
        bootstrap->control = mailbox_world_rank(world, 0);
    return rc;
}

/* Open wire-up, of the whole launcher's job or of a sub-job. */
static int wire_up(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    const struct hvd_ranks *list = &startup->start->job;
    bool whole = list->ranks == NULL && list->count == 0;
    struct hvd_job job;
    bool foreseen = whole && wireup_foresee(&job);
    int rc = foreseen ? check_memory_alone(startup, &job, err) : HVD_OK;
    if (rc == HVD_OK)
        rc = wireup_open(&startup->wireup, startup->config, startup->log, startup->deadline_us,
                         &bootstrap->job, err);
    if (rc == HVD_OK && whole && !foreseen)
        rc = check_memory_alone(startup, &bootstrap->job, err);
    if (rc == HVD_OK && !whole)
        rc = sub_job_open(&startup->wireup, list, MAX_FENCES, &bootstrap->job, &bootstrap->launcher_ranks,
                          err);
    return rc;
}

/* A launcher may end the job at its first failure, and shows what was said until then. So ranks that failed
 * return one after the other: rank 0 at once, as most often all have the same sentence, which is then shown
 * once; the others a moment later; and last those that know only that another rank is gone, not why. */
static void await_turn_to_speak(const struct startup *startup, int status)
{
    const struct hvd_job *job = &startup->bootstrap->job;
    int ms = SPEAK_MS + SPEAK_RANK_MS * (job->local_size > 0 ? job->local_size : startup->group.member_count);
    ms = ms < SPEAK_MOST_MS ? ms : SPEAK_MOST_MS;
    if (job->size > 1 && status == HVD_ERR_RANK_LOST)
        poll(NULL, 0, 2 * ms);
    else if (job->size > 1 && job->rank > 0)
        poll(NULL, 0, ms);
}

int bootstrap_open(struct bootstrap *bootstrap, const struct hvd_config *config, const struct hvd_log *log,
                   const struct hvd_start *start, struct hvd_error *err)
{
    struct startup startup = {.bootstrap = bootstrap,
                              .config = config,
                              .log = log,
                              .start = start,
                              .deadline_us = clock_us() + config->start_timeout_us};
    memset(bootstrap, 0, sizeof(*bootstrap));
    int rc = wire_up(&startup, err);
    if (rc == HVD_OK)
        rc = peer_table_open(&bootstrap->peer_table, &bootstrap->job, err);
    bootstrap->peer_table.log = log;
    bootstrap->peer_table.lease_us = config->lease_us;
    bootstrap->peer_table.encrypt = config->encrypt;
    if (rc == HVD_OK)
        rc = bootstrap->job.size == 1 ? start_single_rank(&startup, err) : start_many_ranks(&startup, err);
    bool launcher_wide =
        rc == HVD_OK && bootstrap->job.size == bootstrap->job.launcher_size; /* all ranks came this far */
    int rest = launcher_wide
                   ? HVD_OK
                   : sub_job_fence_remaining(&startup.wireup, startup.deadline_us, rc == HVD_OK ? err : NULL);
    if (rc == HVD_OK)
        rc = rest;
    node_close(startup.node);
    nic_discovery_close(&startup.nic_discovery);
    wireup_close(&startup.wireup);
    if (rc != HVD_OK)
        await_turn_to_speak(&startup, rc);
    node_group_free(&startup.group);
    free(startup.leaders.ranks);
    free(startup.peer_info);
    if (rc != HVD_OK)
        bootstrap_close(bootstrap);
    return rc;
}

void bootstrap_after_fork(struct bootstrap *bootstrap)
{
    endpoint_after_fork(bootstrap->endpoint);
}

void bootstrap_close(struct bootstrap *bootstrap)
{
    if (bootstrap->control != NULL)
        bootstrap->control->ops->close(bootstrap->control);
    windows_detach(&bootstrap->windows);
    endpoint_close(bootstrap->endpoint);
    peer_table_close(&bootstrap->peer_table);
    free(bootstrap->launcher_ranks);
    memset(bootstrap, 0, sizeof(*bootstrap));
}
