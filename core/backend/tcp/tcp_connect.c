/* tcp_connect.c: the connections that a team of backend tcp needs for one algorithm, made while the loop goes
 * on. */
#include "backend/tcp/tcp_connect.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "backend/sched/bruck.h"
#include "backend/tcp/fragment.h"
#include "net/seal.h"

struct tcp_connect {
    struct establishment *establishment;
    const struct peer_table *peer_table;
    struct endpoint_connection *wants;
    int count;
    enum tcp_algorithm algorithm;
    bool taken; /* the caller owns the descriptors */
    int epoll_fd;
};

/* ---- Which connections ---------------------------------------------------------------------- */

/* Any two ranks share at most one slice of a process set, so its tag need not say which. */

/* The lanes of the ring that this rank connects to the next member, or accepts from the previous one. */
static void want_lanes(const struct team *team, int lanes, bool connect, struct endpoint_connection *wants)
{
    int member = (team->rank + (connect ? 1 : team->size - 1)) % team->size;
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

/* The connections to the members that we send to, by step, or from those that we receive from. */
static void want_steps(const struct team *team, bool connect, struct endpoint_connection *wants)
{
    for (int step = 0; step < bruck_step_count(team->size); step++) {
        int64_t distance = INT64_C(1) << step;
        int64_t member = (team->rank + (connect ? distance : team->size - distance)) % team->size;
        wants[step] = (struct endpoint_connection){.rank = team->ranks[member],
                                                   .purpose = ENDPOINT_BRUCK,
                                                   .tag = (uint32_t)team->set,
                                                   .connect = connect,
                                                   .fd = -1};
    }
}

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

static int count_wants(const struct backend_env *env, const struct team *team, enum tcp_algorithm algorithm)
{
    switch (algorithm) {
    case TCP_BY_CHAIN:
        return 2 * (int)env->config->tcp_streams;
    case TCP_BY_BRUCK:
        return 2 * bruck_step_count(team->size);
    case TCP_BY_PAIRWISE:
        return team->size - 1;
    case TCP_ALGORITHM_COUNT:
        break;
    }
    return 0;
}

static void fill_wants(struct tcp_connect *connect, const struct team *team)
{
    int half = connect->count / 2;
    switch (connect->algorithm) {
    case TCP_BY_CHAIN:
        want_lanes(team, half, true, connect->wants);
        want_lanes(team, half, false, connect->wants + half);
        break;
    case TCP_BY_BRUCK:
        want_steps(team, true, connect->wants);
        want_steps(team, false, connect->wants + half);
        break;
    case TCP_BY_PAIRWISE:
        want_pairs(team, connect->wants);
        break;
    case TCP_ALGORITHM_COUNT:
        break;
    }
}

/* ---- Connecting ----------------------------------------------------------------------------- */

int tcp_connect_begin(struct tcp_connect **connectp, const struct backend_env *env, const struct team *team,
                      enum tcp_algorithm algorithm, struct hvd_error *err)
{
    int count = count_wants(env, team, algorithm);
    struct tcp_connect *connect = calloc(1, sizeof(*connect));
    struct endpoint_connection *wants = calloc((size_t)count, sizeof(*wants));
    if (connect == NULL || wants == NULL) {
        free(connect);
        free(wants);
        return error_set(err, HVD_ERR_NO_MEMORY, "backend tcp: no memory for %d connections", count);
    }
    *connect = (struct tcp_connect){.peer_table = env->peer_table,
                                    .wants = wants,
                                    .count = count,
                                    .algorithm = algorithm,
                                    .epoll_fd = env->epoll_fd};
    fill_wants(connect, team);
    int status =
        establishment_begin(&connect->establishment, env->endpoint, env->peer_table, wants, count, err);
    if (status == HVD_OK)
        status = fragment_watch(env->epoll_fd, establishment_fd(connect->establishment), EPOLLIN, err);
    if (status < 0) {
        tcp_connect_end(connect);
        return status;
    }
    *connectp = connect;
    return HVD_OK;
}

/* For a connection that we send on. */
static int clear_user_timeout(int fd, struct hvd_error *err)
{
    return connection_wait_for_reader(fd) ? HVD_OK : error_set_errno(err, "backend tcp: TCP_USER_TIMEOUT");
}

int tcp_connect_test(struct tcp_connect *connect, int *rankp, struct hvd_error *err)
{
    int status = establishment_advance(connect->establishment, rankp, err);
    for (int i = 0; i < connect->count && status == HVD_OK; i++) {
        const struct endpoint_connection *want = &connect->wants[i];
        if (want->connect || connect->algorithm == TCP_BY_PAIRWISE)
            status = clear_user_timeout(want->fd, err);
    }
    return status;
}

int64_t tcp_connect_deadline(const struct tcp_connect *connect)
{
    return establishment_deadline(connect->establishment);
}

int tcp_connect_waits_for(const struct tcp_connect *connect)
{
    return establishment_waits_for(connect->establishment);
}

int tcp_connect_watch(const struct tcp_connect *connect, struct tcp_watch *watch, struct hvd_error *err)
{
    int status = tcp_watch_open(watch, connect->peer_table, connect->wants, connect->count);
    return status == HVD_OK
               ? status
               : error_set(err, status, "backend tcp: no memory for %d connections", connect->count);
}

const struct endpoint_connection *tcp_connect_take(struct tcp_connect *connect)
{
    connect->taken = true;
    return connect->wants;
}

/* Those that are connected already. */
static void close_connected(const struct tcp_connect *connect)
{
    for (int i = 0; i < connect->count && !connect->taken; i++)
        if (connect->wants[i].fd >= 0)
            close(connect->wants[i].fd);
}

void tcp_connect_after_fork(struct tcp_connect *connect)
{
    if (connect == NULL)
        return;
    establishment_after_fork(connect->establishment);
    close_connected(connect);
}

void tcp_connect_end(struct tcp_connect *connect)
{
    if (connect == NULL)
        return;
    if (connect->establishment != NULL)
        fragment_unwatch(connect->epoll_fd, establishment_fd(connect->establishment));
    establishment_end(connect->establishment);
    close_connected(connect);
    for (int i = 0; i < connect->count; i++)
        seal_free(connect->wants[i].seal);
    free(connect->wants);
    free(connect);
}
