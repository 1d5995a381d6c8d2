/* tcp_connect.h: the connections that a team of backend tcp needs for one algorithm, made while the loop goes
 * on.
 *
 * A team connects when its first batch by that algorithm begins: most teams need only one of the three, and a
 * team that another backend carries for needs none. All members come to that batch. */
#ifndef BACKEND_TCP_TCP_CONNECT_H
#define BACKEND_TCP_TCP_CONNECT_H

#include "backend/backend_env.h"
#include "backend/tcp/tcp_chain.h"

enum tcp_algorithm { TCP_BY_CHAIN, TCP_BY_BRUCK, TCP_BY_PAIRWISE, TCP_ALGORITHM_COUNT };

struct tcp_connect;

/* [env] and [team] must stay until the end. Must not block. */
int tcp_connect_begin(struct tcp_connect **connectp, const struct backend_env *env, const struct team *team,
                      enum tcp_algorithm algorithm, struct hvd_error *err);

/* HVD_IN_PROGRESS, or HVD_OK once all are connected; HVD_ERR_RANK_LOST is about *rankp. env's epoll_fd wakes
 * the driver when there is more to do, or tcp_connect_deadline has come. */
int tcp_connect_test(struct tcp_connect *connect, int *rankp, struct hvd_error *err);
int64_t tcp_connect_deadline(const struct tcp_connect *connect);

/* The rank of the job that is missing, or one of them. */
int tcp_connect_waits_for(const struct tcp_connect *connect);

/* After HVD_OK: note the connections in [watch]. */
int tcp_connect_watch(const struct tcp_connect *connect, struct tcp_watch *watch, struct hvd_error *err);

/* And then: the connections. The caller owns their descriptors from now on, but not the list.
 * - chain: one for each lane to the next member, then one for each lane from the previous one.
 * - bruck: one for each step to the member that we send to, then one for each step from the other.
 * - pairwise: one for each other member, in their order. */
const struct endpoint_connection *tcp_connect_take(struct tcp_connect *connect);

/* In a forked child: close descriptors, touch nothing else. */
void tcp_connect_after_fork(struct tcp_connect *connect);

/* NULL is fine. */
void tcp_connect_end(struct tcp_connect *connect);

#endif
