/* tcp.c: the backend between any ranks that reach each other by TCP.
 *
 * A team gets a ring of connections when it has its first large batch, for the pipelined chain (tcp_chain);
 * connections across the ring with its first small batch (tcp_bruck), and one to each other member with its
 * first alltoall (tcp_pairwise). Each of the three drives a schedule of sched/ over its sockets, in
 * fragments. While the team connects (tcp_connect), the batch waits in test. */
#include <stdlib.h>
#include <unistd.h>

#include "backend/tcp/tcp_bruck.h"
#include "backend/tcp/tcp_chain.h"
#include "backend/tcp/tcp_connect.h"
#include "backend/tcp/tcp_pairwise.h"
#include "backend/backend_env.h"

/* Large enough that the system calls for a chunk cost little, small enough that it stays in the second-level
 * cache from receiving over reducing to sending. */
#define CHUNK_BYTES BACKEND_SENDS_BYTES(2)
_Static_assert(CHUNK_BYTES >= BACKEND_SOURCE_BYTES, "a chunk of a source is no longer than ours");

struct tcp_team {
    struct tcp_team *next;
    struct team team;
    struct tcp_chain *tcp_chain;                   /* from its first batch of several chunks on */
    struct tcp_bruck *tcp_bruck;                   /* from its first small batch on */
    struct tcp_pairwise *tcp_pairwise;             /* from its first alltoall on */
    struct tcp_watch watches[TCP_ALGORITHM_COUNT]; /* of the connections of each */
    enum tcp_algorithm algorithm;                  /* of the batch that runs */
    uint64_t sequence;                             /* of that batch */
    struct tcp_connect *connect;                   /* what it waits for, or NULL */
    struct backend_batch batch;                    /* as it was started, while it waits */
    bool shares_nodes; /* some members are on one node; known from its first small batch on */
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

/* Connects nothing yet, see tcp_connect.h. The networks between nodes were probed at the start. */
static int tcp_add_team(void *state, const struct team *team, int64_t deadline_us, void **teamp,
                        struct hvd_error *err)
{
    (void)deadline_us;
    struct tcp *tcp = state;
    struct tcp_team *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return error_set_errno(err, "backend tcp: no memory for %zu bytes", sizeof(*self));
    self->team = *team;
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
    tcp_connect_end(self->connect);
    tcp_chain_close(self->tcp_chain);
    tcp_bruck_close(self->tcp_bruck);
    tcp_pairwise_close(self->tcp_pairwise);
    for (int i = 0; i < TCP_ALGORITHM_COUNT; i++)
        tcp_watch_close(&self->watches[i]);
    free(self);
}

/* ---- What uses the connections --------------------------------------------------------------- */

static void fill_chain_peer(const struct tcp *tcp, struct tcp_chain_peer *peer,
                            const struct endpoint_connection *connections, int lanes)
{
    peer->rank = connections->rank;
    for (int lane = 0; lane < lanes; lane++)
        peer->fds[lane] = connections[lane].fd;
    peer_table_rank_name(tcp->env->peer_table, peer->rank, peer->name, sizeof(peer->name));
}

static int open_chain(const struct tcp *tcp, struct tcp_team *self,
                      const struct endpoint_connection *connections, struct hvd_error *err)
{
    int lanes = (int)tcp->env->config->tcp_streams;
    struct tcp_chain_params params = {.rank = self->team.rank,
                                      .size = self->team.size,
                                      .chunk_bytes = CHUNK_BYTES,
                                      .lanes = lanes,
                                      .epoll_fd = tcp->env->epoll_fd,
                                      .watch = &self->watches[TCP_BY_CHAIN]};
    fill_chain_peer(tcp, &params.next, connections, lanes);
    fill_chain_peer(tcp, &params.previous, connections + lanes, lanes);
    return tcp_chain_open(&self->tcp_chain, &params, err);
}

static void fill_bruck_peer(const struct tcp *tcp, struct tcp_bruck_peer *peer,
                            const struct endpoint_connection *connection)
{
    peer->rank = connection->rank;
    peer->fd = connection->fd;
    peer_table_rank_name(tcp->env->peer_table, connection->rank, peer->name, sizeof(peer->name));
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

/* No memory for connections that are there: close them. */
static int fail_connected(const struct endpoint_connection *connections, int count, struct hvd_error *err)
{
    for (int i = 0; i < count; i++)
        close(connections[i].fd);
    return error_set(err, HVD_ERR_NO_MEMORY, "backend tcp: no memory for %d connections", count);
}

static int open_bruck(const struct tcp *tcp, struct tcp_team *self,
                      const struct endpoint_connection *connections, struct hvd_error *err)
{
    int steps = bruck_step_count(self->team.size);
    struct tcp_bruck_peer *peers = calloc(2 * (size_t)steps, sizeof(*peers)); /* to them, then from them */
    if (peers == NULL)
        return fail_connected(connections, 2 * steps, err);
    struct tcp_bruck_params params = {.rank = self->team.rank,
                                      .size = self->team.size,
                                      .shares_nodes = self->shares_nodes,
                                      .to = peers,
                                      .from = peers + steps,
                                      .epoll_fd = tcp->env->epoll_fd,
                                      .watch = &self->watches[TCP_BY_BRUCK]};
    for (int i = 0; i < 2 * steps; i++)
        fill_bruck_peer(tcp, &peers[i], &connections[i]);
    int rc = tcp_bruck_open(&self->tcp_bruck, &params, err);
    free(peers);
    return rc;
}

static int open_pairwise(const struct tcp *tcp, struct tcp_team *self,
                         const struct endpoint_connection *connections, struct hvd_error *err)
{
    struct tcp_pairwise_params params = {.team = &self->team,
                                         .peer_table = tcp->env->peer_table,
                                         .chunk_bytes = CHUNK_BYTES,
                                         .epoll_fd = tcp->env->epoll_fd,
                                         .watch = &self->watches[TCP_BY_PAIRWISE]};
    int others = self->team.size - 1;
    int *fds = calloc((size_t)self->team.size, sizeof(*fds));
    if (fds == NULL)
        return fail_connected(connections, others, err);
    fds[self->team.rank] = -1;
    for (int i = 0; i < others; i++)
        fds[i < self->team.rank ? i : i + 1] = connections[i].fd;
    int status = tcp_pairwise_open(&self->tcp_pairwise, &params, fds, err);
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

static bool is_connected(const struct tcp_team *self)
{
    switch (self->algorithm) {
    case TCP_BY_CHAIN:
        return self->tcp_chain != NULL;
    case TCP_BY_BRUCK:
        return self->tcp_bruck != NULL;
    case TCP_BY_PAIRWISE:
        return self->tcp_pairwise != NULL;
    case TCP_ALGORITHM_COUNT:
        break;
    }
    return false;
}

static int start_connected(struct tcp_team *self, const struct backend_batch *batch, struct hvd_error *err)
{
    if (self->algorithm == TCP_BY_PAIRWISE)
        return tcp_pairwise_start(self->tcp_pairwise, batch, err);
    if (self->algorithm == TCP_BY_BRUCK)
        return tcp_bruck_start(self->tcp_bruck, batch, err);
    return tcp_chain_start(self->tcp_chain, batch, err);
}

static int tcp_start(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    const struct tcp *tcp = state;
    struct tcp_team *self = team;
    self->algorithm = choose_algorithm(batch);
    self->sequence = batch->sequence;
    if (is_connected(self))
        return start_connected(self, batch, err);
    self->batch = *batch;
    return tcp_connect_begin(&self->connect, tcp->env, &self->team, self->algorithm, err);
}

/* All are connected: begin the batch that waited for it. */
static int use_connections(const struct tcp *tcp, struct tcp_team *self, struct hvd_error *err)
{
    int status = self->algorithm == TCP_BY_BRUCK
                     ? find_shared_nodes(tcp, &self->team, &self->shares_nodes, err)
                     : HVD_OK;
    if (status == HVD_OK) /* last of what may fail: it takes the seals */
        status = tcp_connect_watch(self->connect, &self->watches[self->algorithm], err);
    if (status < 0)
        return status;
    const struct endpoint_connection *connections = tcp_connect_take(self->connect);
    if (self->algorithm == TCP_BY_PAIRWISE)
        status = open_pairwise(tcp, self, connections, err);
    else if (self->algorithm == TCP_BY_BRUCK)
        status = open_bruck(tcp, self, connections, err);
    else
        status = open_chain(tcp, self, connections, err);
    tcp_connect_end(self->connect);
    self->connect = NULL;
    return status == HVD_OK ? start_connected(self, &self->batch, err) : status;
}

static int test_connected(struct tcp_team *self, bool *movedp, int *rankp, struct hvd_error *err)
{
    if (self->algorithm == TCP_BY_PAIRWISE)
        return tcp_pairwise_test(self->tcp_pairwise, movedp, rankp, err);
    if (self->algorithm == TCP_BY_BRUCK)
        return tcp_bruck_test(self->tcp_bruck, movedp, rankp, err);
    return tcp_chain_test(self->tcp_chain, movedp, rankp, err);
}

static int tcp_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    struct tcp_team *self = team;
    if (self->connect != NULL) {
        *movedp = false;
        int status = tcp_connect_test(self->connect, rankp, err);
        if (status == HVD_OK)
            status = use_connections(state, self, err);
        if (status != HVD_OK)
            return status;
    }
    int status = test_connected(self, movedp, rankp, err);
    if (status != HVD_IN_PROGRESS)
        return status;
    return tcp_watch_check(&self->watches[self->algorithm], self->sequence, *movedp, rankp, err);
}

static int64_t tcp_deadline(const void *state, const void *team)
{
    (void)state;
    const struct tcp_team *self = team;
    return self->connect != NULL ? tcp_connect_deadline(self->connect)
                                 : tcp_watch_deadline(&self->watches[self->algorithm]);
}

static int tcp_waits_for(const void *state, void *team)
{
    (void)state;
    const struct tcp_team *self = team;
    if (self->connect != NULL)
        return tcp_connect_waits_for(self->connect);
    if (self->algorithm == TCP_BY_PAIRWISE)
        return tcp_pairwise_waits_for(self->tcp_pairwise);
    if (self->algorithm == TCP_BY_BRUCK)
        return tcp_bruck_waits_for(self->tcp_bruck);
    return tcp_chain_waits_for(self->tcp_chain);
}

static void tcp_after_fork(void *state)
{
    struct tcp *tcp = state;
    for (struct tcp_team *self = tcp->teams; self != NULL; self = self->next) {
        tcp_connect_after_fork(self->connect);
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
    .spans_from = BRUCK_BYTES + 1, /* a smaller batch may go by bruck, which takes one buffer */
    .supports = tcp_supports,
    .add_team = tcp_add_team,
    .remove_team = tcp_remove_team,
    .start = tcp_start,
    .test = tcp_test,
    .deadline = tcp_deadline,
    .waits_for = tcp_waits_for,
    .after_fork = tcp_after_fork,
    .close = tcp_close,
};
