/* bootstrap.c: the start of a job as a list of steps, from wire-up to a control tree that works. */
#include "bootstrap/startup.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/record.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/stack.h"
#include "control/mailbox.h"
#include "bootstrap/sub_job.h"

#define FEWEST_DESCRIPTORS 8 /* with fewer left, a rank cannot connect by TCP either */

/* How long rank 0 has to report a failed start before the others do: more where ranks share a node. */
#define SPEAK_MS      500
#define SPEAK_RANK_MS 20
#define SPEAK_MOST_MS 10000

static void close_endpoints(struct bootstrap *bootstrap)
{
    endpoint_close(bootstrap->endpoint);
    endpoint_close(bootstrap->message_endpoint);
    bootstrap->endpoint = bootstrap->message_endpoint = NULL;
}

/* Publish this rank's peer info, and find out which ranks may share memory with it. */
static int exchange_peer_info(struct startup *startup, struct hvd_error *err)
{
    struct bootstrap *bootstrap = startup->bootstrap;
    int set_count = startup->start->set_count < 0 ? 0 : startup->start->set_count;
    startup->peer_info = malloc(sizeof(*startup->peer_info));
    if (startup->peer_info == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for this rank's peer info");
    int rc = endpoint_open(&bootstrap->endpoint, startup->config->lease_us, startup->log, err);
    if (rc == HVD_OK)
        rc = endpoint_open(&bootstrap->message_endpoint, startup->config->lease_us, startup->log, err);
    if (rc != HVD_OK)
        return rc;
    peer_info_fill(startup->peer_info, bootstrap->job.host, endpoint_port(bootstrap->endpoint),
                   startup->config);
    startup->peer_info->peer.message_port = endpoint_port(bootstrap->message_endpoint);
    rc = peer_info_fill_start(startup->peer_info, bootstrap->launcher_ranks, bootstrap->job.size,
                              bootstrap->job.rank, set_count);
    if (rc != HVD_OK)
        return error_set(err, rc, "no memory for a list of %d ranks", bootstrap->job.size);
    rc = job_key_find_guard(startup->config->encrypt, &startup->peer_info->key_guard, err);
    if (rc != HVD_OK)
        return rc;
    if (bootstrap->job.rank == 0 && job_key_was_seen(startup->config->encrypt, startup->peer_info->key_guard))
        log_write(startup->log, LOG_WARN, "join",
                  "--hvd-encrypt=on: munge does not work here, so who read the network when Slurm launched "
                  "this step can open what is encrypted");
    rc = startup_offer_reunion(startup, err);
    if (rc != HVD_OK)
        return rc;
    return peer_exchange(&bootstrap->peer_table, &startup->wireup, startup->peer_info, startup->deadline_us,
                         &startup->group, err);
}

/* Where all ranks are on this node, its place shows at once that they need too much memory: no need to wait
 * until all have come. */
static int check_memory_alone(struct startup *startup, struct hvd_error *err)
{
    const struct hvd_job *job = &startup->bootstrap->job;
    return job->local_size == job->size ? startup_check_memory(startup, job->size, job->host, err) : HVD_OK;
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
    if (rc == HVD_ERR_RANK_LOST)
        return error_set(err, rc, "%s", why.text);
    if (rc != HVD_OK)
        log_write(startup->log, rc == HVD_ERR_UNSUPPORTED ? LOG_INFO : LOG_WARN, "join",
                  "no shared memory with the other ranks of this node, TCP instead: %s", why.text);
    return HVD_OK;
}

static bool leads_node(const struct startup *startup)
{
    return startup->node == NULL || node_leads(startup->node);
}

/* The most fences of start_many_ranks in a job that is a part of [launcher_size] ranks: for the peer infos,
 * for the nodes' cards, after the probe, after connecting, for the leaders' reports, and at the end. Cards
 * and reports of many nodes take two. */
static int max_fences(int launcher_size)
{
    return launcher_size > LEADERS_DIRECT ? 9 : 6;
}

static int start_many_ranks(struct startup *startup, struct hvd_error *err)
{
    int rc = exchange_peer_info(startup, err);
    if (rc == HVD_OK)
        rc = attach(startup, err);
    if (rc == HVD_OK)
        rc = leads_node(startup) ? startup_lead(startup, err) : startup_follow(startup, err);
    if (rc == HVD_OK)
        rc = startup_read_reunion(startup, err);
    if (rc == HVD_OK) /* all leaders have read our report: wire-up may end */
        rc = startup_fence(startup, err);
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
    close_endpoints(bootstrap); /* were open for the exchange only, which finds ranks with another list */
    if (rc == HVD_OK)
        rc = startup_check_process_sets(startup, err);
    if (rc == HVD_OK)
        rc = startup_check_memory(startup, 1, bootstrap->job.host, err);
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
    bool foreseen = whole && wireup_foresee(&bootstrap->job);
    int rc = foreseen ? check_memory_alone(startup, err) : HVD_OK;
    if (rc == HVD_OK)
        rc = wireup_open(&startup->wireup, startup->config, startup->log, startup->deadline_us,
                         &bootstrap->job, err);
    if (rc == HVD_OK && whole && !foreseen)
        rc = check_memory_alone(startup, err);
    if (rc == HVD_OK && !whole)
        rc = sub_job_open(&startup->wireup, list, max_fences(bootstrap->job.size), &bootstrap->job,
                          &bootstrap->launcher_ranks, err);
    return rc;
}

void bootstrap_await_turn_to_speak(const struct hvd_job *job, int node_ranks, int status)
{
    int ms = SPEAK_MS + SPEAK_RANK_MS * (job->local_size > 0 ? job->local_size : node_ranks);
    ms = ms < SPEAK_MOST_MS ? ms : SPEAK_MOST_MS;
    if (job->size > 1 && status == HVD_ERR_RANK_LOST)
        poll(NULL, 0, 2 * ms);
    else if (job->size > 1 && job->rank > 0)
        poll(NULL, 0, ms);
}

/* What bootstrap_open was called with. */
struct opening {
    struct bootstrap *bootstrap;
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_start *start;
    struct hvd_error *err;
};

static int open_job(void *opaque)
{
    const struct opening *opening = opaque;
    struct bootstrap *bootstrap = opening->bootstrap;
    const struct hvd_config *config = opening->config;
    struct hvd_error *err = opening->err;
    struct startup startup = {.bootstrap = bootstrap,
                              .config = config,
                              .log = opening->log,
                              .start = opening->start,
                              .deadline_us = clock_us() + config->start_timeout_us};
    memset(bootstrap, 0, sizeof(*bootstrap));
    int rc = rank_claim_take(&bootstrap->claim, err);
    if (rc == HVD_OK)
        rc = wire_up(&startup, err);
    if (rc == HVD_OK && wireup_is_elastic()) {
        /* the wait for enough ranks was no part of this start */
        startup.deadline_us = clock_us() + config->start_timeout_us;
        record_prepare(); /* for the launcher's connection, which is made once a rank is lost, in haste */
    }
    if (rc == HVD_OK)
        rc = peer_table_open(&bootstrap->peer_table, &bootstrap->job, err);
    bootstrap->peer_table.log = opening->log;
    bootstrap->peer_table.news = wireup_news();
    bootstrap->peer_table.lease_us = config->lease_us;
    bootstrap->peer_table.beats = wireup_is_elastic();
    bootstrap->peer_table.tell_launcher = wireup_is_elastic() ? wireup_beat : NULL;
    bootstrap->peer_table.encrypt = config->encrypt;
    if (rc == HVD_OK)
        rc = bootstrap->job.size == 1 ? start_single_rank(&startup, err) : start_many_ranks(&startup, err);
    bootstrap->deadline_us = startup.deadline_us;
    bool launcher_wide =
        rc == HVD_OK && bootstrap->job.size == bootstrap->job.launcher_size; /* all ranks came this far */
    int rest = launcher_wide
                   ? HVD_OK
                   : sub_job_fence_remaining(&startup.wireup, startup.deadline_us, rc == HVD_OK ? err : NULL);
    if (rc == HVD_OK)
        rc = rest;
    if (rc == HVD_OK)
        startup_plan_reunion(&startup);
    node_close(startup.node);
    nic_discovery_close(&startup.nic_discovery);
    wireup_close(&startup.wireup);
    if (rc != HVD_OK)
        bootstrap_await_turn_to_speak(&bootstrap->job, startup.group.member_count, rc);
    node_group_free(&startup.group);
    free(startup.leaders.ranks);
    free(startup.peer_info);
    if (rc != HVD_OK)
        bootstrap_close(bootstrap);
    return rc;
}

/* The steps need more stack than a program with a low `ulimit -s` has left beside its arguments and
 * environment. */
int bootstrap_open(struct bootstrap *bootstrap, const struct hvd_config *config, const struct hvd_log *log,
                   const struct hvd_start *start, struct hvd_error *err)
{
    struct opening opening = {bootstrap, config, log, start, err};
    return stack_call(open_job, &opening);
}

void bootstrap_after_fork(struct bootstrap *bootstrap)
{
    endpoint_after_fork(bootstrap->endpoint);
    endpoint_after_fork(bootstrap->message_endpoint);
    rank_claim_release(&bootstrap->claim);
}

void bootstrap_close(struct bootstrap *bootstrap)
{
    if (bootstrap->control != NULL)
        bootstrap->control->ops->close(bootstrap->control);
    windows_detach(&bootstrap->windows);
    close_endpoints(bootstrap);
    peer_table_close(&bootstrap->peer_table);
    free(bootstrap->launcher_ranks);
    rank_claim_release(&bootstrap->claim);
    memset(bootstrap, 0, sizeof(*bootstrap));
}
