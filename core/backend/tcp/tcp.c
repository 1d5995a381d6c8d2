/* tcp.c: the backend between any ranks that reach each other by TCP.
 *
 * Each team has a ring of connections for the pipelined chain (tcp_chain). It gets connections across the
 * ring when it has its first small batch (tcp_bruck), and one to each other member when it has its first
 * alltoall (tcp_pairwise). Each of the three drives a schedule of sched/ over its sockets, in fragments. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "backend/tcp/tcp_bruck.h"
#include "backend/tcp/tcp_pairwise.h"
#include "backend/tcp/tcp_chain.h"
#include "backend/backend_env.h"

/* Large enough that the system calls for a chunk cost little, small enough that it stays in the second-level
 * cache from receiving over reducing to sending. */
#define CHUNK_BYTES BACKEND_SENDS_BYTES(2)
_Static_assert(CHUNK_BYTES >= BACKEND_SOURCE_BYTES, "a chunk of a source is no longer than ours");

enum tcp_algorithm { TCP_BY_CHAIN, TCP_BY_BRUCK, TCP_BY_PAIRWISE };

struct tcp_team {
    struct tcp_team *next;
    struct team team;
    struct tcp_chain *tcp_chain;
    struct tcp_bruck *tcp_bruck;       /* from its first small batch on */
    struct tcp_pairwise *tcp_pairwise; /* from its first alltoall on */
    enum tcp_algorithm algorithm;      /* of the batch that runs */
};

struct tcp {
    const struct backend_env *env;
    struct tcp_team *teams;
};

static bool tcp_available(const struct backend_env *env, const char **whyp)
{
    *whyp = "the job has one rank";
    return env->job->size > 1;
}

static bool tcp_supports(const struct backend_need *need)
{
    return chain_supports(need) || pairwise_supports(need);
}

static int tcp_open(const struct backend_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    (void)deadline_us;
    struct tcp *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL)
        return error_set_errno(err, "backend tcp: no memory for %zu bytes", sizeof(*tcp));
    tcp->env = env;
    *statep = tcp;
    return HVD_OK;
}

/* The endpoint sets TCP_USER_TIMEOUT on connections. It must not stay on a connection that we send on: it
 * also fires when the other end acknowledges but reads nothing for that long, and a rank that is stopped or
 * deep in a callback is not lost. The receiving end of a ring's connection still notices a cut link, since it
 * has nothing in flight and sends keepalives; the control tree notices a dead node. */
static int clear_user_timeout(int fd, struct hvd_error *err)
{
    unsigned int never = 0;
    if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof(never)) < 0)
        return error_set_errno(err, "backend tcp: TCP_USER_TIMEOUT");
    return HVD_OK;
}

/* The lanes of the ring that this rank connects to the next member, or accepts from the previous one. */
static void want_lanes(const struct team *team, int lanes, bool connect, struct endpoint_connection *wants)
{
    int member = (team->rank + (connect ? 1 : team->size - 1)) % team->size;
    /* any two ranks share at most one slice of a process set, so its tag need not say which */
    enum endpoint_purpose purpose = team->slice == 0 ? ENDPOINT_CHAIN : ENDPOINT_SLICE_CHAIN;
    for (int lane = 0; lane < lanes; lane++)
        wants[lane] =
            (struct endpoint_connection){.rank = team->ranks[member],
                                         .purpose = purpose,
                                         .tag = (uint32_t)team->set * TCP_CHAIN_MAX_LANES + (uint32_t)lane,
                                         .connect = connect,
                                         .lane = lane,
                                         .fd = -1};
}

static void fill_chain_peer(const struct tcp *tcp, struct tcp_chain_peer *peer,
                            const struct endpoint_connection *wants, int lanes)
{
    peer->rank = wants->rank;
    for (int lane = 0; lane < lanes; lane++)
        peer->fds[lane] = wants[lane].fd;
    peer_table_rank_name(tcp->env->peer_table, wants->rank, peer->name, sizeof(peer->name));
}

static int open_ring(const struct tcp *tcp, struct tcp_team *self, int64_t deadline_us, struct hvd_error *err)
{
    const struct backend_env *env = tcp->env;
    int lanes = (int)env->config->tcp_streams;
    struct endpoint_connection wants[2 * TCP_CHAIN_MAX_LANES];
    struct tcp_chain_params params = {.rank = self->team.rank,
                                      .size = self->team.size,
                                      .chunk_bytes = CHUNK_BYTES,
                                      .lanes = lanes,
                                      .epoll_fd = env->epoll_fd};
    want_lanes(&self->team, lanes, true, wants);
    want_lanes(&self->team, lanes, false, wants + lanes);
    int status = endpoint_establish(env->endpoint, env->peer_table, wants, 2 * lanes, deadline_us, err);
    if (status < 0)
        return status;
    fill_chain_peer(tcp, &params.next, wants, lanes);
    fill_chain_peer(tcp, &params.previous, wants + lanes, lanes);
    status = tcp_chain_open(&self->tcp_chain, &params, err);
    for (int lane = 0; lane < lanes && status == HVD_OK; lane++)
        status = clear_user_timeout(params.next.fds[lane], err);
    return status;
}

/* The team of all ranks connects at hvd_init: a few connections for each rank cost little, all ranks are
 * present, and a problem of the network is reported before the program begins to work. */
static int tcp_add_team(void *state, const struct team *team, int64_t deadline_us, void **teamp,
                        struct hvd_error *err)
{
    struct tcp *tcp = state;
    struct tcp_team *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return error_set_errno(err, "backend tcp: no memory for %zu bytes", sizeof(*self));
    self->team = *team;
    int status = open_ring(tcp, self, deadline_us, err);
    if (status < 0) {
        tcp_chain_close(self->tcp_chain);
        free(self);
        return status;
    }
    self->next = tcp->teams;
    tcp->teams = self;
    *teamp = self;
    return HVD_OK;
}

static void tcp_remove_team(void *state, void *team)
{
    struct tcp *tcp = state;
    struct tcp_team *self = team;
    struct tcp_team **link = &tcp->teams;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    tcp_chain_close(self->tcp_chain);
    tcp_bruck_close(self->tcp_bruck);
    tcp_pairwise_close(self->tcp_pairwise);
    free(self);
}

/* ---- Connections for small batches ----------------------------------------------------------- */

/* The connection to the member that we send to in step [step], or from the one that we receive from. */
static struct endpoint_connection want_bruck_peer(const struct team *team, int step, bool connect)
{
    int64_t distance = INT64_C(1) << step;
    int64_t member = (team->rank + (connect ? distance : team->size - distance)) % team->size;
    return (struct endpoint_connection){.rank = team->ranks[member],
                                        .purpose = ENDPOINT_BRUCK,
                                        .tag = (uint32_t)team->set,
                                        .connect = connect,
                                        .fd = -1};
}

static void fill_bruck_peer(const struct tcp *tcp, struct tcp_bruck_peer *peer,
                            const struct endpoint_connection *want)
{
    peer->rank = want->rank;
    peer->fd = want->fd;
    peer_table_rank_name(tcp->env->peer_table, want->rank, peer->name, sizeof(peer->name));
}

/* Do members share nodes? All members get the same answer. */
static int find_shared_nodes(const struct tcp *tcp, const struct team *team, bool *shares_nodesp,
                             struct hvd_error *err)
{
    const struct peer_table *peer_table = tcp->env->peer_table;
    bool *taken = calloc((size_t)peer_table->size, sizeof(*taken)); /* nodes that have a member, by leader */
    if (taken == NULL)
        return error_set_errno(err, "backend tcp: no memory for the nodes of %d ranks", peer_table->size);
    *shares_nodesp = false;
    for (int member = 0; member < team->size; member++) {
        int leader = peer_table->node_of_rank[team->ranks[member]];
        *shares_nodesp = *shares_nodesp || taken[leader];
        taken[leader] = true;
    }
    free(taken);
    return HVD_OK;
}

static int open_bruck(const struct tcp *tcp, struct tcp_team *self, struct hvd_error *err)
{
    const struct backend_env *env = tcp->env;
    int steps = bruck_step_count(self->team.size);
    struct endpoint_connection wants[2 * BRUCK_MAX_STEPS];
    struct tcp_bruck_peer to[BRUCK_MAX_STEPS], from[BRUCK_MAX_STEPS];
    struct tcp_bruck_params params = {
        .rank = self->team.rank, .size = self->team.size, .to = to, .from = from, .epoll_fd = env->epoll_fd};
    int status = find_shared_nodes(tcp, &self->team, &params.shares_nodes, err);
    if (status < 0)
        return status;
    for (int step = 0; step < steps; step++) {
        wants[step] = want_bruck_peer(&self->team, step, true);
        wants[steps + step] = want_bruck_peer(&self->team, step, false);
    }
    status = endpoint_establish(env->endpoint, env->peer_table, wants, 2 * steps,
                                clock_us() + env->config->start_timeout_us, err);
    if (status < 0)
        return status;
    for (int step = 0; step < steps; step++) {
        fill_bruck_peer(tcp, &to[step], &wants[step]);
        fill_bruck_peer(tcp, &from[step], &wants[steps + step]);
    }
    status = tcp_bruck_open(&self->tcp_bruck, &params, err);
    for (int step = 0; step < steps && status == HVD_OK; step++)
        status = clear_user_timeout(to[step].fd, err);
    return status;
}

/* ---- Connections for alltoalls --------------------------------------------------------------- */

/* Of two members, the lower one connects. */
static void want_pairs(const struct team *team, struct endpoint_connection *wants)
{
    int count = 0;
    enum endpoint_purpose purpose = team->slice == 0 ? ENDPOINT_PAIRWISE : ENDPOINT_SLICE_PAIRWISE;
    for (int member = 0; member < team->size; member++) {
        if (member != team->rank)
            wants[count++] = (struct endpoint_connection){.rank = team->ranks[member],
                                                          .purpose = purpose,
                                                          .tag = (uint32_t)team->set,
                                                          .connect = team->rank < member,
                                                          .fd = -1};
    }
}

static int open_pairwise(const struct tcp *tcp, struct tcp_team *self, struct hvd_error *err)
{
    const struct backend_env *env = tcp->env;
    const struct team *team = &self->team;
    struct tcp_pairwise_params params = {.team = &self->team,
                                         .peer_table = env->peer_table,
                                         .chunk_bytes = CHUNK_BYTES,
                                         .epoll_fd = env->epoll_fd};
    int status = HVD_OK;
    struct endpoint_connection *wants = calloc((size_t)team->size, sizeof(*wants));
    int *fds = calloc((size_t)team->size, sizeof(*fds));
    if (wants == NULL || fds == NULL) {
        status = error_set_errno(err, "backend tcp: no memory to connect to %d ranks", team->size - 1);
        goto done;
    }
    want_pairs(team, wants);
    status = endpoint_establish(env->endpoint, env->peer_table, wants, team->size - 1,
                                clock_us() + env->config->start_timeout_us, err);
    if (status < 0)
        goto done;
    fds[team->rank] = -1;
    for (int i = 0; i < team->size - 1; i++)
        fds[i < team->rank ? i : i + 1] = wants[i].fd;
    status = tcp_pairwise_open(&self->tcp_pairwise, &params, fds, err);
    for (int i = 0; i < team->size - 1 && status == HVD_OK; i++)
        status = clear_user_timeout(wants[i].fd, err);
done:
    free(wants);
    free(fds);
    return status;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* All members choose the same, as it depends on the batch alone. */
static enum tcp_algorithm choose_algorithm(const struct backend_batch *batch)
{
    if (batch->need.kind == COLL_ALLTOALL)
        return TCP_BY_PAIRWISE;
    return batch->source == NULL && bruck_supports(batch) ? TCP_BY_BRUCK : TCP_BY_CHAIN;
}

/* Connections for small batches and alltoalls are made at their first use: most teams need only one of them,
 * and a team that another backend carries for needs neither. */
static bool tcp_connects(const void *team, const struct backend_batch *batch)
{
    const struct tcp_team *self = team;
    enum tcp_algorithm algorithm = choose_algorithm(batch);
    return (algorithm == TCP_BY_BRUCK && self->tcp_bruck == NULL) ||
           (algorithm == TCP_BY_PAIRWISE && self->tcp_pairwise == NULL);
}

static int tcp_start(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    struct tcp_team *self = team;
    int status = HVD_OK;
    self->algorithm = choose_algorithm(batch);
    if (tcp_connects(team, batch))
        status = self->algorithm == TCP_BY_PAIRWISE ? open_pairwise(state, self, err)
                                                    : open_bruck(state, self, err);
    if (status < 0)
        return status;
    if (self->algorithm == TCP_BY_PAIRWISE)
        return tcp_pairwise_start(self->tcp_pairwise, batch, err);
    if (self->algorithm == TCP_BY_BRUCK)
        return tcp_bruck_start(self->tcp_bruck, batch, err);
    return tcp_chain_start(self->tcp_chain, batch, err);
}

static int tcp_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)state;
    struct tcp_team *self = team;
    if (self->algorithm == TCP_BY_PAIRWISE)
        return tcp_pairwise_test(self->tcp_pairwise, movedp, rankp, err);
    if (self->algorithm == TCP_BY_BRUCK)
        return tcp_bruck_test(self->tcp_bruck, movedp, rankp, err);
    return tcp_chain_test(self->tcp_chain, movedp, rankp, err);
}

static void tcp_after_fork(void *state)
{
    struct tcp *tcp = state;
    for (struct tcp_team *self = tcp->teams; self != NULL; self = self->next) {
        tcp_chain_after_fork(self->tcp_chain);
        tcp_bruck_after_fork(self->tcp_bruck);
        tcp_pairwise_after_fork(self->tcp_pairwise);
    }
}

static void tcp_close(void *state)
{
    free(state);
}

const struct backend_ops backend_tcp = {
    .id = BACKEND_TCP,
    .available = tcp_available,
    .open = tcp_open,
    .opens_early = true,
    .polled = false,
    .supports = tcp_supports,
    .add_team = tcp_add_team,
    .remove_team = tcp_remove_team,
    .connects = tcp_connects,
    .start = tcp_start,
    .test = tcp_test,
    .after_fork = tcp_after_fork,
    .close = tcp_close,
};
