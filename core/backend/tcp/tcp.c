/* tcp.c: the plane between any ranks that reach each other by TCP: a ring of connections for each team,
 * chords across it where it has small batches, and a mesh of them where it has alltoalls. */
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

/* Large enough that a call into the kernel is cheap beside it, small enough to stay in the second-level cache
 * between receiving, adding and sending. */
#define CHUNK_BYTES PLANE_SENDS(2)
_Static_assert(CHUNK_BYTES >= PLANE_SOURCE_BYTES, "a piece of a source fits into a chunk");

/* How a batch goes. */
enum tcp_way { BY_RING, BY_CHORDS, BY_MESH };

struct tcp_team {
    struct tcp_team *next;
    struct plane_team team;
    struct stream *stream;
    struct chords *chords; /* from its first small batch on */
    struct mesh *mesh;     /* from its first alltoall on */
    enum tcp_way way;      /* of the batch that runs */
};

struct tcp {
    const struct plane_env *env;
    struct tcp_team *teams;
};

static bool tcp_available(const struct plane_env *env, const char **whyp)
{
    *whyp = "the job has one rank";
    return env->job->size > 1;
}

static bool tcp_can(const struct plane_need *need)
{
    return chain_can(need) || exchange_can(need);
}

static int tcp_open(const struct plane_env *env, int64_t deadline_us, void **statep, struct hvd_error *err)
{
    (void)deadline_us;
    struct tcp *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL)
        return error_set_errno(err, "plane tcp: no memory for %zu bytes", sizeof(*tcp));
    tcp->env = env;
    *statep = tcp;
    return HVD_OK;
}

/* The endpoint gives connections a user time-out. On one that we send on it would mean the wrong thing: it
 * also fires when the other end answers but reads nothing for that long, and a rank that is stopped or deep
 * in a callback is not lost. A cut link of a ring shows at its other end, where nothing is ever in flight and
 * keepalive asks; a dead node shows in the control tree. */
static int let_it_wait(int fd, struct hvd_error *err)
{
    unsigned int never = 0;
    if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof(never)) < 0)
        return error_set_errno(err, "plane tcp: TCP_USER_TIMEOUT");
    return HVD_OK;
}

/* The lanes of a ring that this rank connects, or those that the one before it does. */
static void want_lanes(const struct plane_team *team, int lanes, bool connect, struct endpoint_want *wants)
{
    int member = (team->rank + (connect ? 1 : team->size - 1)) % team->size;
    /* two ranks are together in one slice of a set at most */
    enum endpoint_purpose purpose = team->slice == 0 ? ENDPOINT_RING : ENDPOINT_SLICE;
    for (int lane = 0; lane < lanes; lane++)
        wants[lane] = (struct endpoint_want){.rank = team->ranks[member],
                                             .purpose = purpose,
                                             .tag = (uint32_t)team->set * STREAM_MAX_LANES + (uint32_t)lane,
                                             .connect = connect,
                                             .lane = lane,
                                             .fd = -1};
}

static void fill_link(const struct tcp *tcp, struct stream_link *link, const struct endpoint_want *wants,
                      int lanes)
{
    link->rank = wants->rank;
    for (int lane = 0; lane < lanes; lane++)
        link->fds[lane] = wants[lane].fd;
    roster_name(tcp->env->roster, wants->rank, link->name, sizeof(link->name));
}

static int open_ring(const struct tcp *tcp, struct tcp_team *self, int64_t deadline_us, struct hvd_error *err)
{
    const struct plane_env *env = tcp->env;
    int lanes = env->config->tcp_streams;
    struct endpoint_want wants[2 * STREAM_MAX_LANES];
    struct stream_seat seat = {.rank = self->team.rank,
                               .size = self->team.size,
                               .chunk_bytes = CHUNK_BYTES,
                               .lanes = lanes,
                               .epoll_fd = env->epoll_fd};
    want_lanes(&self->team, lanes, true, wants);
    want_lanes(&self->team, lanes, false, wants + lanes);
    int status = endpoint_establish(env->endpoint, env->roster, wants, 2 * lanes, deadline_us, err);
    if (status < 0)
        return status;
    fill_link(tcp, &seat.next, wants, lanes);
    fill_link(tcp, &seat.previous, wants + lanes, lanes);
    status = stream_open(&self->stream, &seat, err);
    for (int lane = 0; lane < lanes && status == HVD_OK; lane++)
        status = let_it_wait(seat.next.fds[lane], err);
    return status;
}

/* At hvd_init for the team of all ranks: a few connections a rank cost little, everybody is there, and what
 * is wrong with the network is said before the program has begun to work. */
static int tcp_add_team(void *state, const struct plane_team *team, int64_t deadline_us, void **teamp,
                        struct hvd_error *err)
{
    struct tcp *tcp = state;
    struct tcp_team *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return error_set_errno(err, "plane tcp: no memory for %zu bytes", sizeof(*self));
    self->team = *team;
    int status = open_ring(tcp, self, deadline_us, err);
    if (status < 0) {
        stream_close(self->stream);
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
    stream_close(self->stream);
    chords_close(self->chords);
    mesh_close(self->mesh);
    free(self);
}

/* ---- Chords, from the first small batch on --------------------------------------------------- */

/* A connection to the member behind us that step [step] reaches, or from the one before us that reaches us.
 */
static struct endpoint_want want_chord(const struct plane_team *team, int step, bool connect)
{
    int64_t distance = INT64_C(1) << step;
    int64_t member = (team->rank + (connect ? distance : team->size - distance)) % team->size;
    return (struct endpoint_want){.rank = team->ranks[member],
                                  .purpose = ENDPOINT_CHORD,
                                  .tag = (uint32_t)team->set,
                                  .connect = connect,
                                  .fd = -1};
}

static void fill_chord(const struct tcp *tcp, struct chord *chord, const struct endpoint_want *want)
{
    chord->rank = want->rank;
    chord->fd = want->fd;
    roster_name(tcp->env->roster, want->rank, chord->name, sizeof(chord->name));
}

/* Are some members on one node? The same on all of them. */
static int find_crowd(const struct tcp *tcp, const struct plane_team *team, bool *crowdedp,
                      struct hvd_error *err)
{
    const struct roster *roster = tcp->env->roster;
    bool *taken = calloc((size_t)roster->size, sizeof(*taken)); /* nodes, by leader */
    if (taken == NULL)
        return error_set_errno(err, "plane tcp: no memory for the nodes of %d ranks", roster->size);
    *crowdedp = false;
    for (int member = 0; member < team->size; member++) {
        int leader = roster->node_of_rank[team->ranks[member]];
        *crowdedp = *crowdedp || taken[leader];
        taken[leader] = true;
    }
    free(taken);
    return HVD_OK;
}

static int open_chords(const struct tcp *tcp, struct tcp_team *self, struct hvd_error *err)
{
    const struct plane_env *env = tcp->env;
    int steps = doubling_steps(self->team.size);
    struct endpoint_want wants[2 * DOUBLING_MAX_STEPS];
    struct chord to[DOUBLING_MAX_STEPS], from[DOUBLING_MAX_STEPS];
    struct chords_seat seat = {
        .rank = self->team.rank, .size = self->team.size, .to = to, .from = from, .epoll_fd = env->epoll_fd};
    int status = find_crowd(tcp, &self->team, &seat.crowded, err);
    if (status < 0)
        return status;
    for (int step = 0; step < steps; step++) {
        wants[step] = want_chord(&self->team, step, true);
        wants[steps + step] = want_chord(&self->team, step, false);
    }
    status = endpoint_establish(env->endpoint, env->roster, wants, 2 * steps,
                                clock_us() + env->config->start_timeout_us, err);
    if (status < 0)
        return status;
    for (int step = 0; step < steps; step++) {
        fill_chord(tcp, &to[step], &wants[step]);
        fill_chord(tcp, &from[step], &wants[steps + step]);
    }
    status = chords_open(&self->chords, &seat, err);
    for (int step = 0; step < steps && status == HVD_OK; step++)
        status = let_it_wait(to[step].fd, err);
    return status;
}

/* ---- The mesh, from the first alltoall on ---------------------------------------------------- */

/* Of two members the lower one connects. */
static void want_members(const struct plane_team *team, struct endpoint_want *wants)
{
    int count = 0;
    enum endpoint_purpose purpose = team->slice == 0 ? ENDPOINT_MESH : ENDPOINT_SLICE_MESH;
    for (int member = 0; member < team->size; member++) {
        if (member != team->rank)
            wants[count++] = (struct endpoint_want){.rank = team->ranks[member],
                                                    .purpose = purpose,
                                                    .tag = (uint32_t)team->set,
                                                    .connect = team->rank < member,
                                                    .fd = -1};
    }
}

static int open_mesh(const struct tcp *tcp, struct tcp_team *self, struct hvd_error *err)
{
    const struct plane_env *env = tcp->env;
    const struct plane_team *team = &self->team;
    struct mesh_seat seat = {
        .team = &self->team, .roster = env->roster, .chunk_bytes = CHUNK_BYTES, .epoll_fd = env->epoll_fd};
    int status = HVD_OK;
    struct endpoint_want *wants = calloc((size_t)team->size, sizeof(*wants));
    int *fds = calloc((size_t)team->size, sizeof(*fds));
    if (wants == NULL || fds == NULL) {
        status = error_set_errno(err, "plane tcp: no memory to connect to %d ranks", team->size - 1);
        goto done;
    }
    want_members(team, wants);
    status = endpoint_establish(env->endpoint, env->roster, wants, team->size - 1,
                                clock_us() + env->config->start_timeout_us, err);
    if (status < 0)
        goto done;
    fds[team->rank] = -1;
    for (int i = 0; i < team->size - 1; i++)
        fds[i < team->rank ? i : i + 1] = wants[i].fd;
    status = mesh_open(&self->mesh, &seat, fds, err);
    for (int i = 0; i < team->size - 1 && status == HVD_OK; i++)
        status = let_it_wait(wants[i].fd, err);
done:
    free(wants);
    free(fds);
    return status;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* The same on all members, by the batch alone. */
static enum tcp_way choose_way(const struct plane_batch *batch)
{
    if (batch->need.kind == PLANE_ALLTOALL)
        return BY_MESH;
    return batch->source == NULL && doubling_can(batch) ? BY_CHORDS : BY_RING;
}

/* Chords and mesh are made when they are first used: most teams have no use for one of them, and where
 * another plane carries for a team, for both. */
static bool tcp_connects(const void *team, const struct plane_batch *batch)
{
    const struct tcp_team *self = team;
    enum tcp_way way = choose_way(batch);
    return (way == BY_CHORDS && self->chords == NULL) || (way == BY_MESH && self->mesh == NULL);
}

static int tcp_start(void *state, void *team, const struct plane_batch *batch, struct hvd_error *err)
{
    struct tcp_team *self = team;
    int status = HVD_OK;
    self->way = choose_way(batch);
    if (tcp_connects(team, batch))
        status = self->way == BY_MESH ? open_mesh(state, self, err) : open_chords(state, self, err);
    if (status < 0)
        return status;
    if (self->way == BY_MESH)
        return mesh_start(self->mesh, batch, err);
    if (self->way == BY_CHORDS)
        return chords_start(self->chords, batch, err);
    return stream_start(self->stream, batch, err);
}

static int tcp_test(void *state, void *team, bool *movedp, int *rankp, struct hvd_error *err)
{
    (void)state;
    struct tcp_team *self = team;
    if (self->way == BY_MESH)
        return mesh_test(self->mesh, movedp, rankp, err);
    if (self->way == BY_CHORDS)
        return chords_test(self->chords, movedp, rankp, err);
    return stream_test(self->stream, movedp, rankp, err);
}

static void tcp_after_fork(void *state)
{
    struct tcp *tcp = state;
    for (struct tcp_team *self = tcp->teams; self != NULL; self = self->next) {
        stream_after_fork(self->stream);
        chords_after_fork(self->chords);
        mesh_after_fork(self->mesh);
    }
}

static void tcp_close(void *state)
{
    free(state);
}

const struct plane_ops plane_tcp = {
    .id = PLANE_TCP,
    .available = tcp_available,
    .open = tcp_open,
    .opens_early = true,
    .polled = false,
    .can = tcp_can,
    .add_team = tcp_add_team,
    .remove_team = tcp_remove_team,
    .connects = tcp_connects,
    .start = tcp_start,
    .test = tcp_test,
    .after_fork = tcp_after_fork,
    .close = tcp_close,
};
