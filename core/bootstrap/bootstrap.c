/* bootstrap.c: from wire-up to a control tree that works: the start of a job, as a list of steps. */
#include "bootstrap/bootstrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rank_list.h"
#include "bootstrap/memory_budget.h"
#include "bootstrap/peer_info.h"
#include "control/mailbox.h"
#include "node/node.h"
#include "bootstrap/sub_job.h"
#include "bootstrap/start_report.h"
#include "bootstrap/nic_discovery.h"

#define REPORT_US \
    INT64_C(1000000) /* kept back from the time to connect, to tell all ranks who was not reached */

/* A job that starts. What is in [joined] is complete as far as the steps have come. */
struct joining {
    struct joined *joined;
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_start *start;
    int64_t deadline_us;
    struct wireup wireup;
    int *members; /* ranks that may share memory with this one */
    int member_count;
    bool *attached; /* [size]: which ranks share the memory of their node */
    struct node *node;
    struct survey survey;
};

/* Say to all ranks who we are, and read who they are. */
static int introduce(struct joining *joining, struct hvd_error *err)
{
    struct joined *joined = joining->joined;
    size_t size = (size_t)joined->job.size;
    joining->members = calloc(size, sizeof(*joining->members));
    joining->attached = calloc(size, sizeof(*joining->attached));
    struct card *card = malloc(sizeof(*card));
    int rc = HVD_OK;
    if (joining->members == NULL || joining->attached == NULL || card == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %zu ranks", size);
    if (rc == HVD_OK)
        rc = endpoint_open(&joined->endpoint, joining->config->lease_us, joining->log, err);
    if (rc == HVD_OK) {
        card_fill(card, joined->job.host, endpoint_port(joined->endpoint), joining->config);
        rc = card_fill_start(card, joined->launcher_ranks, joined->job.size, joined->job.rank,
                             joining->start->set_count < 0 ? 0 : joining->start->set_count);
        if (rc != HVD_OK)
            error_set(err, rc, "no memory for a list of %zu ranks", size);
    }
    if (rc == HVD_OK) {
        rc = roster_exchange(&joined->roster, &joining->wireup, card, joining->deadline_us, err);
    }
    free(card);
    if (rc == HVD_OK) {
        joining->member_count = roster_members(&joined->roster, joining->members);
        rc = survey_open(&joining->survey, &joined->roster, err);
    }
    return rc;
}

static int check_memory(const struct joining *joining, int rank_count, struct hvd_error *err)
{
    struct budget budget;
    budget_read(&budget);
    return budget_check(&budget, joining->config->fusion_bytes, rank_count, joining->joined->job.host, err);
}

/* The process sets to begin with, as far as one rank can tell. */
static int check_sets(const struct joining *joining, struct hvd_error *err)
{
    const struct hvd_start *start = joining->start;
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
        rc = ranks_check(&start->sets[i], joining->joined->job.size, what, err);
    }
    return rc;
}

/* Meet the ranks of this node in shared memory. Where that fails they reach each other by TCP. */
static void meet_members(struct joining *joining)
{
    const struct roster *roster = &joining->joined->roster;
    struct hvd_error why = {""};
    int64_t now_us = clock_us();
    /* half of the time that is left, so that ranks that cannot meet still can connect */
    int rc = node_meet(&joining->node, roster, joining->members, joining->member_count,
                       now_us + (joining->deadline_us - now_us) / 2, &why);
    if (rc != HVD_OK)
        log_write(joining->log, LOG_WARN, "join",
                  "no shared memory with the other ranks of this node, TCP instead: %s", why.text);
}

static bool has_other_nodes(const struct joining *joining)
{
    return joining->survey.node_count > 1;
}

/* Look at what is ours, meet the ranks of this node, and tell other nodes how they may reach us. */
static int meet(struct joining *joining, struct hvd_error *err)
{
    int rc = check_sets(joining, err);
    if (rc == HVD_OK)
        rc = check_memory(joining, joining->member_count, err);
    if (rc == HVD_OK && joining->member_count > 1)
        meet_members(joining);
    if (rc == HVD_OK && has_other_nodes(joining))
        rc = survey_offer(&joining->survey, &joining->joined->roster, &joining->wireup, joining->config->nics,
                          err);
    return rc;
}

/* Some time is kept back to tell all ranks who was not reached. */
static int64_t connect_deadline(const struct joining *joining)
{
    int64_t spare_us = (joining->deadline_us - clock_us()) / 4;
    return joining->deadline_us - (spare_us < REPORT_US ? spare_us : REPORT_US);
}

/* Try which network interfaces join the nodes. */
static int prove_network(struct joining *joining, struct hvd_error *err)
{
    struct joined *joined = joining->joined;
    return survey_prove(&joining->survey, joined->endpoint, &joined->roster, &joining->wireup,
                        connect_deadline(joining), err);
}

/* All have tried: from now on by what works. */
static int settle_network(struct joining *joining, struct hvd_error *err)
{
    struct survey *survey = &joining->survey;
    struct joined *joined = joining->joined;
    int rc = survey_settle(survey, &joined->roster, &joining->wireup, joining->deadline_us, err);
    if (rc == HVD_OK)
        settings_of_choice(survey->nodes, &survey->plan, &survey->choice, survey->node, &joined->settings);
    return rc;
}

/* Connections with the relatives on other nodes, into [link_fds]. */
static int connect_links(struct joining *joining, int link_fds[CONTROL_MAX_LINKS], struct hvd_error *err)
{
    struct joined *joined = joining->joined;
    const struct shape *shape = &joined->shape;
    struct endpoint_want wants[CONTROL_MAX_LINKS];
    int want_links[CONTROL_MAX_LINKS] = {0}, want_count = 0;
    for (int link = 0; link < CONTROL_MAX_LINKS; link++)
        link_fds[link] = -1;
    for (int link = CONTROL_PARENT; link <= shape->child_count; link++) {
        int rank = link == CONTROL_PARENT ? shape->parent : shape->child_ranks[link - 1];
        if (rank < 0 || joined->roster.node_of_rank[rank] == shape->leader)
            continue;
        want_links[want_count] = link;
        wants[want_count++] = (struct endpoint_want){
            .rank = rank, .purpose = ENDPOINT_CONTROL, .connect = link == CONTROL_PARENT, .fd = -1};
    }
    int rc = endpoint_establish(joined->endpoint, &joined->roster, wants, want_count,
                                connect_deadline(joining), err);
    for (int i = 0; rc == HVD_OK && i < want_count; i++)
        link_fds[want_links[i]] = wants[i].fd;
    return rc;
}

/* Now all know who shares memory with whom: the tree, its connections, and control over them. */
static int connect_tree(struct joining *joining, struct hvd_error *err)
{
    struct joined *joined = joining->joined;
    struct roster *roster = &joined->roster;
    int link_fds[CONTROL_MAX_LINKS];
    int rc = has_other_nodes(joining) ? settle_network(joining, err) : HVD_OK;
    if (rc == HVD_OK)
        rc = roster_settle(roster, joining->attached, err);
    if (rc == HVD_OK)
        rc = shape_of_rank(roster->node_of_rank, roster->size, roster->rank, &joined->shape, err);
    if (rc == HVD_OK)
        rc = connect_links(joining, link_fds, err);
    if (rc != HVD_OK)
        return rc;
    if (joined->shape.local_size == 1) {
        node_close(joining->node);
        joining->node = NULL;
    }
    struct node *node = joining->node;
    joined->arena = node_arena(node);
    joined->windows = node_take_windows(node);
    rc = node_crowding(node, &joined->crowding, err);
    if (rc != HVD_OK)
        return rc;
    joining->node = NULL; /* control takes it */
    return control_open(&joined->control, roster, &joined->shape, node, link_fds, err);
}

/* What each rank does by itself; after each all ranks hear how the others fared. */
static const struct {
    const char *name;
    int (*work)(struct joining *joining, struct hvd_error *err);
    bool (*is_needed)(const struct joining *joining); /* the same on all ranks; NULL: always */
} steps[] = {
    {"met", meet, NULL}, {"proved", prove_network, has_other_nodes}, {"connected", connect_tree, NULL}};

/* What join_others fences at most: for the cards, after each step, and at the end. */
#define FENCES (1 + (int)(sizeof(steps) / sizeof(steps[0])) + 1)

static int join_others(struct joining *joining, struct hvd_error *err)
{
    const struct roster *roster = &joining->joined->roster;
    int rc = introduce(joining, err);
    for (size_t i = 0; rc == HVD_OK && i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct report mine = {.step = steps[i].name};
        if (steps[i].is_needed != NULL && !steps[i].is_needed(joining))
            continue;
        mine.status = steps[i].work(joining, &mine.reason);
        mine.attached = joining->node != NULL;
        rc = report_exchange(roster, &joining->wireup, &mine, i == 0 ? joining->attached : NULL,
                             joining->deadline_us, err);
    }
    if (rc == HVD_OK) /* nobody is asking for our report any more: wire-up may end */
        rc = joining->wireup.ops->fence(joining->wireup.state, joining->deadline_us, err);
    return rc;
}

/* A job of one rank: the same objects, without anybody to talk to. */
static int join_nobody(struct joining *joining, struct hvd_error *err)
{
    struct joined *joined = joining->joined;
    struct roster *roster = &joined->roster;
    struct local_world *world = NULL;
    memcpy(roster->peers[0].host, joined->job.host, sizeof(roster->peers[0].host));
    roster->peers[0].pid = getpid();
    int rc = joined->launcher_ranks == NULL ? HVD_OK : introduce(joining, err);
    endpoint_close(joined->endpoint); /* introduced only to those who think that we are in their part */
    joined->endpoint = NULL;
    if (rc == HVD_OK)
        rc = check_sets(joining, err);
    if (rc == HVD_OK)
        rc = check_memory(joining, 1, err);
    if (rc == HVD_OK)
        rc = shape_of_rank(roster->node_of_rank, 1, 0, &joined->shape, err);
    if (rc == HVD_OK)
        rc = local_world_open(&world, roster->node_of_rank, 1, err);
    if (rc == HVD_OK)
        joined->control = local_world_rank(world, 0);
    return rc;
}

/* Wire-up, of the launcher's whole job or of our part of it. */
static int wire_up(struct joining *joining, struct hvd_error *err)
{
    struct joined *joined = joining->joined;
    const struct hvd_ranks *part = &joining->start->job;
    int rc =
        wireup_open(&joining->wireup, joining->config, joining->log, joining->deadline_us, &joined->job, err);
    if (rc == HVD_OK && (part->ranks != NULL || part->count != 0))
        rc = part_open(&joining->wireup, part, FENCES, &joined->job, &joined->launcher_ranks, err);
    return rc;
}

int join_open(struct joined *joined, const struct hvd_config *config, const struct hvd_log *log,
              const struct hvd_start *start, struct hvd_error *err)
{
    struct joining joining = {.joined = joined,
                              .config = config,
                              .log = log,
                              .start = start,
                              .deadline_us = clock_us() + config->start_timeout_us};
    memset(joined, 0, sizeof(*joined));
    int rc = wire_up(&joining, err);
    if (rc == HVD_OK)
        rc = roster_open(&joined->roster, &joined->job, err);
    joined->roster.log = log;
    if (rc == HVD_OK)
        rc = joined->job.size == 1 ? join_nobody(&joining, err) : join_others(&joining, err);
    bool whole = rc == HVD_OK && joined->job.size == joined->job.launcher_size; /* all were in step */
    int rest =
        whole ? HVD_OK : part_fence_rest(&joining.wireup, joining.deadline_us, rc == HVD_OK ? err : NULL);
    if (rc == HVD_OK)
        rc = rest;
    node_close(joining.node);
    survey_close(&joining.survey);
    wireup_close(&joining.wireup);
    free(joining.members);
    free(joining.attached);
    if (rc != HVD_OK)
        join_close(joined);
    return rc;
}

void join_after_fork(struct joined *joined)
{
    endpoint_after_fork(joined->endpoint);
}

void join_close(struct joined *joined)
{
    if (joined->control != NULL)
        joined->control->ops->close(joined->control);
    windows_detach(&joined->windows);
    endpoint_close(joined->endpoint);
    roster_close(&joined->roster);
    free(joined->launcher_ranks);
    memset(joined, 0, sizeof(*joined));
}
