/* bootstrap.c: the start of a job as a list of steps, from wire-up to a control tree that works. */
#include "bootstrap/bootstrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rank_list.h"
#include "bootstrap/memory_budget.h"
#include "bootstrap/peer_exchange.h"
#include "control/mailbox.h"
#include "control/tree.h"
#include "node/node.h"
#include "bootstrap/sub_job.h"
#include "bootstrap/start_report.h"
#include "bootstrap/nic_discovery.h"

#define REPORT_RESERVE_US \
    INT64_C(1000000) /* reserved from the time to connect, to tell all ranks which rank was not reached */

/* The start of a job under way. [bootstrap] is complete as far as the steps have come. */
struct startup {
    struct bootstrap *bootstrap;
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_start *start;
    int64_t deadline_us;
    struct wireup wireup;
    int *members; /* ranks that may share memory with this one */
    int member_count;
    bool *attached; /* [size]: which ranks share the memory of their node */
    struct node *node;
    struct nic_discovery nic_discovery;
};

/* Publish this rank's peer info, and read that of all ranks. */
static int exchange_peer_info(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    size_t size = (size_t)bootstrap->job.size;
    startup->members = calloc(size, sizeof(*startup->members));
    startup->attached = calloc(size, sizeof(*startup->attached));
    struct peer_info *peer_info = malloc(sizeof(*peer_info));
    int rc = HVD_OK;
    if (startup->members == NULL || startup->attached == NULL || peer_info == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %zu ranks", size);
    if (rc == HVD_OK)
        rc = endpoint_open(&bootstrap->endpoint, startup->config->lease_us, startup->log, err);
    if (rc == HVD_OK) {
        peer_info_fill(peer_info, bootstrap->job.host, endpoint_port(bootstrap->endpoint), startup->config);
        rc = peer_info_fill_start(peer_info, bootstrap->launcher_ranks, bootstrap->job.size,
                                  bootstrap->job.rank,
                                  startup->start->set_count < 0 ? 0 : startup->start->set_count);
        if (rc != HVD_OK)
            error_set(err, rc, "no memory for a list of %zu ranks", size);
    }
    if (rc == HVD_OK)
        rc = job_key_find_guard(&peer_info->key_guard, err);
    if (rc == HVD_OK) {
        rc = peer_exchange(&bootstrap->peer_table, &startup->wireup, peer_info, startup->deadline_us, err);
    }
    free(peer_info);
    if (rc == HVD_OK) {
        startup->member_count = peer_table_local_peers(&bootstrap->peer_table, startup->members);
        rc = nic_discovery_open(&startup->nic_discovery, &bootstrap->peer_table, err);
    }
    return rc;
}

static int check_memory(const struct startup *startup, int rank_count, struct hvd_error *err)
{
    struct memory_budget budget;
    memory_budget_read(&budget);
    return memory_budget_check(&budget, startup->config->fusion_bytes, rank_count,
                               startup->bootstrap->job.host, err);
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

/* Attach the ranks of this node to shared memory. If that fails they use TCP. */
static void attach_members(struct startup *startup)
{
    const struct peer_table *peer_table = &startup->bootstrap->peer_table;
    struct hvd_error why = {""};
    int64_t now_us = clock_us();
    /* half of the time that is left, so that ranks that cannot attach can still connect */
    int rc = node_attach(&startup->node, peer_table, startup->members, startup->member_count,
                         now_us + (startup->deadline_us - now_us) / 2, &why);
    if (rc != HVD_OK)
        log_write(startup->log, LOG_WARN, "join",
                  "no shared memory with the other ranks of this node, TCP instead: %s", why.text);
}

static bool has_other_nodes(const struct startup *startup)
{
    return startup->nic_discovery.node_count > 1;
}

/* Check what one rank can check, attach the ranks of this node, and publish this node's network
 * interfaces. */
static int attach_node(struct startup *startup, struct hvd_error *err)
{
    int rc = check_process_sets(startup, err);
    if (rc == HVD_OK)
        rc = check_memory(startup, startup->member_count, err);
    if (rc == HVD_OK && startup->member_count > 1)
        attach_members(startup);
    if (rc == HVD_OK && has_other_nodes(startup))
        rc = nic_discovery_publish(&startup->nic_discovery, &startup->bootstrap->peer_table, &startup->wireup,
                                   startup->config->nics, err);
    return rc;
}

/* Reserves some time, so that all ranks learn which rank was not reached. */
static int64_t connect_deadline(const struct startup *startup)
{
    int64_t spare_us = (startup->deadline_us - clock_us()) / 4;
    return startup->deadline_us - (spare_us < REPORT_RESERVE_US ? spare_us : REPORT_RESERVE_US);
}

/* Try which network interfaces join the nodes. */
static int probe_network(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    return nic_discovery_probe(&startup->nic_discovery, bootstrap->endpoint, &bootstrap->peer_table,
                               &startup->wireup, connect_deadline(startup), err);
}

/* All ranks have probed: choose the networks that work on all nodes. */
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

/* Connect to the parent and children on other nodes; the sockets go into [link_fds]. */
static int connect_links(struct startup *startup, int link_fds[TREE_MAX_LINKS], struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    const struct tree_shape *shape = &bootstrap->shape;
    struct endpoint_connection wants[TREE_MAX_LINKS];
    int want_links[TREE_MAX_LINKS] = {0}, want_count = 0;
    for (int link = 0; link < TREE_MAX_LINKS; link++)
        link_fds[link] = -1;
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
    for (int i = 0; rc == HVD_OK && i < want_count; i++)
        link_fds[want_links[i]] = wants[i].fd;
    return rc;
}

/* All ranks know which ranks share memory: build the tree, connect its links, and open control on them. */
static int connect_tree(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct peer_table *peer_table = &bootstrap->peer_table;
    int link_fds[TREE_MAX_LINKS];
    int rc = has_other_nodes(startup) ? choose_networks(startup, err) : HVD_OK;
    if (rc == HVD_OK)
        rc = peer_table_assign_nodes(peer_table, startup->attached, err);
    if (rc == HVD_OK)
        rc = tree_shape_of_rank(peer_table->node_of_rank, peer_table->size, peer_table->rank,
                                &bootstrap->shape, err);
    if (rc == HVD_OK)
        rc = connect_links(startup, link_fds, err);
    if (rc != HVD_OK)
        return rc;
    if (bootstrap->shape.local_size == 1) {
        node_close(startup->node);
        startup->node = NULL;
    }
    struct node *node = startup->node;
    bootstrap->arena = node_arena(node);
    bootstrap->windows = node_take_windows(node);
    rc = node_oversubscription(node, &bootstrap->oversubscription, err);
    if (rc != HVD_OK)
        return rc;
    startup->node = NULL; /* control owns it now */
    return control_open(&bootstrap->control, peer_table, &bootstrap->shape, node, link_fds, err);
}

/* Each rank does the work of a step by itself; after each step all ranks exchange reports of how it went. */
static const struct {
    const char *name;
    int (*work)(struct startup *startup, struct hvd_error *err);
    bool (*is_needed)(const struct startup *startup); /* the same on all ranks; NULL: always */
} steps[] = {{"attached", attach_node, NULL},
             {"probed", probe_network, has_other_nodes},
             {"connected", connect_tree, NULL}};

/* The most fences of start_many_ranks: for the peer infos, after each step, and at the end. */
#define MAX_FENCES (1 + (int)(sizeof(steps) / sizeof(steps[0])) + 1)

static int start_many_ranks(struct startup *startup, struct hvd_error *err)
{
    const struct peer_table *peer_table = &startup->bootstrap->peer_table;
    int rc = exchange_peer_info(startup, err);
    for (size_t i = 0; rc == HVD_OK && i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct start_report mine = {.step = steps[i].name};
        if (steps[i].is_needed != NULL && !steps[i].is_needed(startup))
            continue;
        mine.status = steps[i].work(startup, &mine.reason);
        mine.attached = startup->node != NULL;
        rc = start_report_exchange(peer_table, &startup->wireup, &mine, i == 0 ? startup->attached : NULL,
                                   startup->deadline_us, err);
    }
    if (rc == HVD_OK) /* all ranks have read our report: wire-up may end */
        rc = startup->wireup.ops->fence(startup->wireup.state, startup->deadline_us, err);
    return rc;
}

/* A job of one rank: the same objects, without connections. */
static int start_single_rank(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    struct peer_table *peer_table = &bootstrap->peer_table;
    struct mailbox_world *world = NULL;
    memcpy(peer_table->peers[0].host, bootstrap->job.host, sizeof(peer_table->peers[0].host));
    peer_table->peers[0].pid = getpid();
    int rc = bootstrap->launcher_ranks == NULL ? HVD_OK : exchange_peer_info(startup, err);
    endpoint_close(
        bootstrap->endpoint); /* was open for the exchange only, which finds ranks with another list */
    bootstrap->endpoint = NULL;
    if (rc == HVD_OK)
        rc = check_process_sets(startup, err);
    if (rc == HVD_OK)
        rc = check_memory(startup, 1, err);
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
    int rc = wireup_open(&startup->wireup, startup->config, startup->log, startup->deadline_us,
                         &bootstrap->job, err);
    if (rc == HVD_OK && (list->ranks != NULL || list->count != 0))
        rc = sub_job_open(&startup->wireup, list, MAX_FENCES, &bootstrap->job, &bootstrap->launcher_ranks,
                          err);
    return rc;
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
    free(startup.members);
    free(startup.attached);
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
