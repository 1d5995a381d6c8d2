/* endpoint.c: this rank's listening socket, and connections to other ranks after a handshake. */
#include "config.h"
#include "net/endpoint.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/drop_report.h"
#include "net/address.h"
#include "net/connection.h"
#include "net/seal.h"
#include "auth/handshake.h"

#define UNAUTHENTICATED_MAX 64 /* accepted connections without a finished handshake; the oldest gives way */
#define PROOF_US            INT64_C(100000)  /* to prove itself, where no descriptor is left */
#define CONNECT_US          INT64_C(2000000) /* for one address to answer, if there are others to try */
#define PAUSE_FIRST_US      INT64_C(10000)   /* between two rounds over a peer's addresses; then it doubles */
#define PAUSE_LAST_US       INT64_C(500000)
#define PATIENCE_LEASES     2  /* how long a rank may not accept a connection, see establishment_begin */
#define EVENTS_AT_ONCE      64 /* taken from epoll in one call */

_Static_assert(JOB_KEY_BYTES == HANDSHAKE_KEY_BYTES, "the key of the peer table is one for the handshake");
_Static_assert((int)ENDPOINT_PROBE < (int)HANDSHAKE_PURPOSE_ATTACH,
               "a purpose stands for one kind of connection");

struct endpoint {
    int fd;
    uint16_t port;
    int64_t lease_us;
    const struct hvd_log *log;
    struct drop_report drop_report; /* of foreign connections */
};

/* A connection that this rank begins: the addresses of the peer, and how far it got. */
struct dial {
    struct in6_addr addresses[PEER_MAX_ADDRESSES]; /* best first */
    int address_count, next;
    int64_t not_before_us, pause_us;
    int64_t answered_us; /* when an address last accepted a connection; at first, when the dial began */
    bool busy;           /* its handshake is under way */
    const char *why;     /* why the last attempt failed */
};

/* The requests of one call, and the connections on their way. The first [request_count] handshakes are those
 * that this rank begins, one for each request; the others belong to connections that it accepted. */
struct establishment {
    struct endpoint *endpoint;
    const struct peer_table *peer_table;
    struct endpoint_connection *requests;
    int request_count, missing;
    struct dial *dials;
    struct handshake *handshakes;
    int handshake_count;
    int epoll_fd;      /* has the sockets of the handshakes and the listening socket, by their number */
    uint32_t *watched; /* the events that it waits for at each handshake */
    int64_t wake_us;   /* when something is due though no socket is ready */
    bool was_full;     /* once no descriptor was left */
    int full_errno;    /* no descriptor is left, and no connection can give way: the errno; else 0 */
    int64_t accept_us; /* nothing is accepted until then, so that handshakes can be finished; else 0 */
    bool best_effort;  /* a request that is not met in time is no failure, */
    int64_t grace_us;  /* and waiting ends this long after all requests of one lane are met */
};

/* ---- The listening socket ---- */

static int listen_on(struct endpoint *endpoint, const struct in6_addr *any, struct hvd_error *err)
{
    struct sockaddr_storage address;
    socklen_t length = address_to_sockaddr(any, 0, &address);
    int both = 0;
    endpoint->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (endpoint->fd < 0)
        return error_set_errno(err, "cannot make a socket for the other ranks");
    if (address.ss_family == AF_INET6 &&
        setsockopt(endpoint->fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both)) < 0)
        goto fail;
    if (bind(endpoint->fd, (struct sockaddr *)&address, length) < 0 || listen(endpoint->fd, SOMAXCONN) < 0)
        goto fail;
    length = sizeof(address);
    if (getsockname(endpoint->fd, (struct sockaddr *)&address, &length) < 0)
        goto fail;
    endpoint->port = address_sockaddr_port(&address);
    return HVD_OK;
fail:;
    int rc = error_set_errno(err, "cannot listen for the other ranks");
    close(endpoint->fd);
    endpoint->fd = -1;
    return rc;
}

int endpoint_open(struct endpoint **endpointp, int64_t lease_us, const struct hvd_log *log,
                  struct hvd_error *err)
{
    static const struct in6_addr any4 = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}}};
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised");
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (endpoint == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the listening socket");
    endpoint->lease_us = lease_us;
    endpoint->log = log;
    int rc = listen_on(endpoint, &in6addr_any, err);
    if (rc == HVD_ERR_SYSTEM)
        rc = listen_on(endpoint, &any4, err); /* no IPv6 here */
    if (rc != HVD_OK) {
        free(endpoint);
        return rc;
    }
    *endpointp = endpoint;
    return HVD_OK;
}

uint16_t endpoint_port(const struct endpoint *endpoint)
{
    return endpoint->port;
}

void endpoint_after_fork(struct endpoint *endpoint)
{
    if (endpoint == NULL || endpoint->fd < 0)
        return;
    close(endpoint->fd);
    endpoint->fd = -1;
}

void endpoint_close(struct endpoint *endpoint)
{
    if (endpoint != NULL)
        drop_report_tell(&endpoint->drop_report, INT64_MAX, endpoint->log, "endpoint");
    endpoint_after_fork(endpoint);
    free(endpoint);
}

/* ---- What wakes an establishment ---- */

/* The events of the listening socket have the number behind those of the handshakes. */
static int watch_listener(struct establishment *establishment, int operation, bool accepts)
{
    struct epoll_event event = {.events = accepts ? EPOLLIN : 0,
                                .data.u32 = (uint32_t)establishment->handshake_count};
    return epoll_ctl(establishment->epoll_fd, operation, establishment->endpoint->fd, &event);
}

static int begin_waiting(struct establishment *establishment, struct hvd_error *err)
{
    establishment->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (establishment->epoll_fd < 0 || watch_listener(establishment, EPOLL_CTL_ADD, true) < 0)
        return error_set_errno(err, "cannot wait for connections of the other ranks");
    return HVD_OK;
}

/* Wait for what the handshake needs next. A failure shows as its time-out. */
static void watch_handshake(struct establishment *establishment, int index)
{
    const struct handshake *handshake = &establishment->handshakes[index];
    short wanted = handshake_poll_events(handshake);
    uint32_t events = (wanted & POLLIN ? (uint32_t)EPOLLIN : 0) | (wanted & POLLOUT ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)index};
    if (handshake->fd < 0 || establishment->watched[index] == events)
        return;
    epoll_ctl(establishment->epoll_fd, establishment->watched[index] == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD,
              handshake->fd, &event);
    establishment->watched[index] = events;
}

/* Before its socket is closed or handed over: a forked child's copy would keep it in the epoll set. */
static void unwatch_handshake(struct establishment *establishment, int index)
{
    if (establishment->watched[index] != 0)
        epoll_ctl(establishment->epoll_fd, EPOLL_CTL_DEL, establishment->handshakes[index].fd, NULL);
    establishment->watched[index] = 0;
}

static void drop_handshake(struct establishment *establishment, int index)
{
    unwatch_handshake(establishment, index);
    handshake_close(&establishment->handshakes[index]);
}

/* ---- The requests ---- */

static void report_foreign(struct establishment *establishment, int fd, const char *why)
{
    struct endpoint *endpoint = establishment->endpoint;
    char text[ADDRESS_TEXT_BYTES];
    address_peer_text(fd, text);
    drop_report_add(&endpoint->drop_report, clock_us(), endpoint->log, "endpoint",
                    "dropped a connection with %s: the other end %s", text, why);
}

/* A rank of this job has come too early, and comes again. */
static void report_stray(struct establishment *establishment, int fd, const char *why)
{
    char text[ADDRESS_TEXT_BYTES];
    address_peer_text(fd, text);
    log_write(establishment->endpoint->log, LOG_INFO, "endpoint",
              "dropped a connection with %s: the other end %s", text, why);
}

/* Find the request that a peer's claim meets, and set *requestp. Otherwise returns why there is none: usually
 * the peer is ahead of this rank, and connects for a process set that this rank makes next. */
static const char *match_claim(const struct establishment *establishment, const struct handshake_claim *claim,
                               int *requestp)
{
    for (int i = 0; i < establishment->request_count; i++) {
        const struct endpoint_connection *request = &establishment->requests[i];
        if (!request->connect && (uint32_t)request->rank == claim->from &&
            request->purpose == claim->purpose && request->tag == claim->tag) {
            *requestp = i;
            return request->fd < 0 ? NULL : "is connected already";
        }
    }
    return "is a rank that is not expected now";
}

/* Handshake [at] has met request [index]. False: there is no memory for a connection that must be sealed. */
static bool complete_connection(struct establishment *establishment, int index, int at)
{
    struct handshake *handshake = &establishment->handshakes[at];
    struct endpoint_connection *request = &establishment->requests[index];
    if (establishment->peer_table->encrypt && request->purpose != ENDPOINT_PROBE) {
        request->seal = seal_create(handshake);
        if (request->seal == NULL) {
            drop_handshake(establishment, at);
            return false;
        }
    }
    unwatch_handshake(establishment, at);
    connection_set_options(handshake->fd, establishment->endpoint->lease_us);
    request->fd = handshake->fd;
    establishment->missing--;
    handshake->fd = -1;
    return true;
}

/* ---- Accepted connections that have not proved anything ---- */

/* The oldest of them, or -1. */
static int oldest_unproven(const struct establishment *establishment)
{
    int oldest = -1;
    for (int i = establishment->request_count; i < establishment->handshake_count; i++)
        if (establishment->handshakes[i].fd >= 0 &&
            (oldest < 0 ||
             establishment->handshakes[i].deadline_us < establishment->handshakes[oldest].deadline_us))
            oldest = i;
    return oldest;
}

/* A socket could not be made because of [error]. Where no descriptor is left, the oldest connection gives way
 * once it has had the time to prove itself. Returns true if another attempt is worth it now. */
static bool make_room(struct establishment *establishment, int error)
{
    if (!descriptors_are_used_up(error))
        return false;
    int oldest = oldest_unproven(establishment);
    int64_t due_us =
        oldest < 0 ? 0 : establishment->handshakes[oldest].deadline_us - HANDSHAKE_TIMEOUT_US + PROOF_US;
    establishment->was_full = true;
    if (oldest >= 0 && clock_us() >= due_us) {
        report_foreign(establishment, establishment->handshakes[oldest].fd,
                       "gave way: no descriptor was left, and it had not proved itself");
        drop_handshake(establishment, oldest);
        return true;
    }
    establishment->full_errno = oldest < 0 ? error : 0;
    establishment->accept_us = due_us;
    watch_listener(establishment, EPOLL_CTL_MOD, false);
    errno = error;
    return false;
}

/* A free entry for an accepted connection. Where there is none, the oldest connection is dropped. */
static int take_handshake(struct establishment *establishment)
{
    for (int i = establishment->request_count; i < establishment->handshake_count; i++)
        if (establishment->handshakes[i].fd < 0)
            return i;
    int oldest = oldest_unproven(establishment);
    report_foreign(establishment, establishment->handshakes[oldest].fd,
                   "gave way to newer ones: too many connect and say nothing");
    drop_handshake(establishment, oldest);
    return oldest;
}

/* ---- Connections that this rank begins ---- */

static void dial_failed(struct establishment *establishment, int index, const char *why)
{
    struct dial *dial = &establishment->dials[index];
    char name[300];
    peer_table_rank_name(establishment->peer_table, establishment->requests[index].rank, name, sizeof(name));
    log_write(establishment->endpoint->log, LOG_DEBUG, "endpoint", "address %d of %s: %s", dial->next, name,
              why);
    dial->busy = false;
    dial->why = why;
    dial->next++;
    if (dial->next < dial->address_count)
        return;
    dial->next = 0;
    dial->not_before_us = clock_us() + dial->pause_us;
    dial->pause_us = dial->pause_us * 2 < PAUSE_LAST_US ? dial->pause_us * 2 : PAUSE_LAST_US;
}

/* Begin to connect. Returns a socket, or -1 with errno if the network refuses at once. */
static int begin_connect(struct establishment *establishment, const struct in6_addr *address, uint16_t port)
{
    struct sockaddr_storage socket_address;
    socklen_t length = address_to_sockaddr(address, port, &socket_address);
    int fd = -1;
    do
        fd = socket(socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    while (fd < 0 && make_room(establishment, errno));
    if (fd >= 0 && (connect(fd, (struct sockaddr *)&socket_address, length) == 0 || errno == EINPROGRESS))
        return fd;
    int saved_errno = errno;
    if (fd >= 0)
        close(fd);
    errno = saved_errno;
    return -1;
}

static void dial_start(struct establishment *establishment, int index)
{
    struct dial *dial = &establishment->dials[index];
    const struct endpoint_connection *request = &establishment->requests[index];
    struct handshake *handshake = &establishment->handshakes[index];
    const struct handshake_claim claim = {.purpose = (uint16_t)request->purpose,
                                          .tag = request->tag,
                                          .epoch = establishment->peer_table->epoch,
                                          .from = (uint32_t)establishment->peer_table->rank,
                                          .to = (uint32_t)request->rank};
    while (!dial->busy && clock_us() >= dial->not_before_us) {
        int fd = begin_connect(establishment, &dial->addresses[dial->next],
                               establishment->peer_table->peers[request->rank].port);
        if (fd < 0) {
            dial_failed(establishment, index, strerror(errno));
            continue;
        }
        dial->busy = true;
        handshake_connect(handshake, establishment->peer_table->key, &claim, fd);
        if (dial->address_count > 1)
            handshake->deadline_us = clock_us() + CONNECT_US;
        watch_handshake(establishment, index);
    }
}

static void dial_advance(struct establishment *establishment, int index)
{
    struct handshake *handshake = &establishment->handshakes[index];
    enum handshake_state before = handshake->state;
    switch (handshake_advance(handshake)) {
    case HANDSHAKE_DONE:
        if (!complete_connection(establishment, index, index))
            dial_failed(establishment, index, "no memory to encrypt the connection");
        return;
    case HANDSHAKE_FAILED:
        if (handshake->foreign)
            report_foreign(establishment, handshake->fd, handshake->why);
        drop_handshake(establishment, index);
        dial_failed(establishment, index, handshake->why);
        return;
    default:
        if (before == HANDSHAKE_CONNECTING && handshake->state != before) {
            establishment->dials[index].answered_us = clock_us();
            handshake->deadline_us = establishment->dials[index].answered_us + HANDSHAKE_TIMEOUT_US;
        }
        watch_handshake(establishment, index);
    }
}

/* ---- Connections that it accepts ---- */

/* Take what has connected. What finds no descriptor left is taken later. */
static int accept_all(struct establishment *establishment, struct hvd_error *err)
{
    for (int i = 0; i < UNAUTHENTICATED_MAX; i++) {
        int fd = accept4(establishment->endpoint->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            int at = take_handshake(establishment);
            handshake_accept(&establishment->handshakes[at], establishment->peer_table->key, fd);
            watch_handshake(establishment, at);
            continue;
        }
        int error = errno;
        if (error == EAGAIN || make_room(establishment, error) || descriptors_are_used_up(error))
            return HVD_OK;
        if (error == ENOBUFS || error == ENOMEM)
            return error_set_errno(err, "cannot accept a connection of another rank");
    }
    return HVD_OK;
}

static void accepted_advance(struct establishment *establishment, int at)
{
    struct handshake *handshake = &establishment->handshakes[at];
    int index = -1;
    enum handshake_result result = handshake_advance(handshake);
    if (result == HANDSHAKE_CLAIMED || result == HANDSHAKE_DONE) {
        handshake->why = handshake_stray_reason(&handshake->claim, establishment->peer_table->epoch,
                                                establishment->peer_table->rank);
        handshake->foreign = handshake->why != NULL;
        if (!handshake->foreign)
            handshake->why = match_claim(establishment, &handshake->claim, &index);
        if (handshake->why != NULL)
            result = HANDSHAKE_FAILED;
    }
    if (result == HANDSHAKE_CLAIMED) {
        handshake_admit(handshake);
        result = handshake_advance(handshake);
    }
    if (result == HANDSHAKE_DONE)
        complete_connection(establishment, index, at);
    if (result == HANDSHAKE_FAILED) {
        if (handshake->foreign)
            report_foreign(establishment, handshake->fd, handshake->why);
        else
            report_stray(establishment, handshake->fd, handshake->why);
        drop_handshake(establishment, at);
    }
    watch_handshake(establishment, at);
}

/* ---- All requests together ---- */

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Begin the connections that are due. */
static void begin_due(struct establishment *establishment)
{
    for (int i = 0; i < establishment->request_count; i++)
        if (establishment->requests[i].connect && establishment->requests[i].fd < 0)
            dial_start(establishment, i);
}

/* When the next connection is due, or a handshake late: clock_us time, or INT64_MAX. */
static int64_t next_due(const struct establishment *establishment)
{
    int64_t due_us = establishment->accept_us > 0 ? establishment->accept_us : INT64_MAX;
    for (int i = 0; i < establishment->request_count; i++) {
        const struct endpoint_connection *request = &establishment->requests[i];
        if (request->connect && request->fd < 0 && !establishment->dials[i].busy)
            due_us = earlier(due_us, establishment->dials[i].not_before_us);
    }
    for (int i = 0; i < establishment->handshake_count; i++)
        if (establishment->handshakes[i].fd >= 0)
            due_us = earlier(due_us, establishment->handshakes[i].deadline_us);
    return due_us;
}

static void advance(struct establishment *establishment, int index)
{
    if (establishment->handshakes[index].fd < 0)
        return;
    if (index < establishment->request_count)
        dial_advance(establishment, index);
    else
        accepted_advance(establishment, index);
}

/* Give up the handshakes that are late. */
static void expire(struct establishment *establishment)
{
    static const char late[] = "did not finish its handshake in time";
    int64_t now_us = clock_us();
    for (int i = 0; i < establishment->handshake_count; i++) {
        struct handshake *handshake = &establishment->handshakes[i];
        bool ours = i < establishment->request_count;
        if (handshake->fd < 0 || now_us < handshake->deadline_us)
            continue;
        if (!ours)
            report_foreign(establishment, handshake->fd, late);
        drop_handshake(establishment, i);
        if (ours)
            dial_failed(establishment, i,
                        handshake->state == HANDSHAKE_CONNECTING ? "does not answer" : late);
    }
}

/* Wait until [wake_us] for something to do, and do it. */
static int run_once(struct establishment *establishment, int64_t wake_us, struct hvd_error *err)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    bool accepts = false;
    if (establishment->full_errno != 0)
        return descriptors_error(err, establishment->full_errno, "cannot connect to the other ranks",
                                 establishment->missing);
    if (establishment->accept_us > 0 && clock_us() >= establishment->accept_us) {
        establishment->accept_us = 0;
        watch_listener(establishment, EPOLL_CTL_MOD, true);
    }
    int count = epoll_wait(establishment->epoll_fd, events, EVENTS_AT_ONCE, clock_ms_until(wake_us));
    if (count < 0 && errno != EINTR)
        return error_set_errno(err, "cannot wait for the other ranks");
    for (int i = 0; i < count; i++) {
        int index = (int)events[i].data.u32;
        if (index < establishment->handshake_count)
            advance(establishment, index);
        else
            accepts = true;
    }
    expire(establishment);
    return accepts && establishment->missing > 0 ? accept_all(establishment, err) : HVD_OK;
}

static int first_missing(const struct establishment *establishment)
{
    int first = 0;
    while (establishment->requests[first].fd >= 0)
        first++;
    return first;
}

/* The error names the first rank that is missing, and what was tried. */
static int report_missing(const struct establishment *establishment, int first, struct hvd_error *err)
{
    const struct endpoint_connection *request = &establishment->requests[first];
    const struct dial *dial = &establishment->dials[first];
    char peer[300], self[300], more[120] = "", tried[4 * ADDRESS_TEXT_BYTES] = "";
    peer_table_rank_name(establishment->peer_table, request->rank, peer, sizeof(peer));
    peer_table_rank_name(establishment->peer_table, establishment->peer_table->rank, self, sizeof(self));
    if (establishment->missing > 1)
        snprintf(more, sizeof(more), "; %d more %s missing", establishment->missing - 1,
                 establishment->missing == 2 ? "rank is" : "ranks are");
    if (establishment->was_full)
        snprintf(more + strlen(more), sizeof(more) - strlen(more),
                 "; all descriptors were in use (`ulimit -n`)");
    if (!request->connect)
        return error_set(
            err, HVD_ERR_TIMEOUT,
            "%s has not connected to %s in time; see whether it still runs and its node reaches this one%s",
            peer, self, more);
    for (int i = 0; i < dial->address_count; i++) {
        char text[ADDRESS_TEXT_BYTES];
        size_t used = strlen(tried);
        address_text(&dial->addresses[i], text);
        snprintf(tried + used, sizeof(tried) - used, "%s%s", i == 0 ? "" : ", ", text);
    }
    return error_set(err, HVD_ERR_TIMEOUT,
                     "%s could not connect to %s in time; port %u of %s was tried, the last time: %s%s", self,
                     peer, establishment->peer_table->peers[request->rank].port, tried,
                     dial->why != NULL ? dial->why : "no answer yet", more);
}

static bool is_lane_complete(const struct establishment *establishment)
{
    bool complete = false;
    for (int i = 0; i < establishment->request_count && !complete; i++) {
        complete = true;
        for (int k = 0; k < establishment->request_count; k++)
            if (establishment->requests[k].lane == establishment->requests[i].lane &&
                establishment->requests[k].fd < 0)
                complete = false;
    }
    return complete;
}

static int establishment_run(struct establishment *establishment, int64_t deadline_us, struct hvd_error *err)
{
    bool in_grace = false;
    while (establishment->missing > 0) {
        begin_due(establishment);
        int rc = run_once(establishment, earlier(deadline_us, next_due(establishment)), err);
        if (rc != HVD_OK)
            return rc;
        if (establishment->missing == 0)
            break;
        if (establishment->best_effort && !in_grace && is_lane_complete(establishment)) {
            in_grace = true;
            deadline_us = earlier(deadline_us, clock_us() + establishment->grace_us);
        }
        if (clock_us() >= deadline_us)
            return establishment->best_effort
                       ? HVD_OK
                       : report_missing(establishment, first_missing(establishment), err);
    }
    return HVD_OK;
}

static int check_ranks(const struct peer_table *peer_table, struct endpoint_connection *requests,
                       int request_count, struct hvd_error *err)
{
    for (int i = 0; i < request_count; i++) {
        requests[i].fd = -1;
        requests[i].seal = NULL;
    }
    for (int i = 0; i < request_count; i++)
        if (requests[i].rank < 0 || requests[i].rank >= peer_table->size ||
            requests[i].rank == peer_table->rank)
            return error_set(err, HVD_ERR_INVALID, "rank %d cannot connect to rank %d of %d",
                             peer_table->rank, requests[i].rank, peer_table->size);
    return HVD_OK;
}

static int establishment_open(struct establishment *establishment, struct hvd_error *err)
{
    struct address_net nets[ADDRESS_MAX_NETS];
    int net_count = address_nets(nets, ADDRESS_MAX_NETS);
    establishment->missing = establishment->request_count;
    establishment->handshake_count = 2 * establishment->request_count + UNAUTHENTICATED_MAX;
    establishment->dials = calloc((size_t)establishment->request_count, sizeof(*establishment->dials));
    establishment->handshakes =
        calloc((size_t)establishment->handshake_count, sizeof(*establishment->handshakes));
    establishment->watched = calloc((size_t)establishment->handshake_count, sizeof(*establishment->watched));
    if (establishment->dials == NULL || establishment->handshakes == NULL || establishment->watched == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to connect to %d ranks",
                         establishment->request_count);
    for (int i = 0; i < establishment->handshake_count; i++)
        establishment->handshakes[i].fd = -1;
    for (int i = 0; i < establishment->request_count; i++) {
        const struct peer *peer = &establishment->peer_table->peers[establishment->requests[i].rank];
        struct dial *dial = &establishment->dials[i];
        dial->pause_us = PAUSE_FIRST_US;
        dial->answered_us = clock_us();
        if (establishment->requests[i].address != NULL) {
            dial->address_count = 1;
            dial->addresses[0] = *establishment->requests[i].address;
            continue;
        }
        dial->address_count = peer->address_count;
        memcpy(dial->addresses, peer->addresses, sizeof(dial->addresses));
        address_sort(dial->addresses, dial->address_count, nets, net_count);
        address_rotate(dial->addresses, dial->address_count, nets, net_count,
                       establishment->requests[i].lane);
    }
    return begin_waiting(establishment, err);
}

static void establishment_close(struct establishment *establishment)
{
    for (int i = 0; establishment->epoll_fd >= 0 && i < establishment->handshake_count; i++)
        drop_handshake(establishment, i);
    if (establishment->epoll_fd >= 0)
        close(establishment->epoll_fd);
    free(establishment->dials);
    free(establishment->handshakes);
    free(establishment->watched);
}

static void close_requests(struct endpoint_connection *requests, int request_count)
{
    for (int i = 0; i < request_count; i++) {
        if (requests[i].fd >= 0)
            close(requests[i].fd);
        seal_free(requests[i].seal);
        requests[i].fd = -1;
        requests[i].seal = NULL;
    }
}

/* On failure no socket is left open. */
static int establish_all(struct establishment *establishment, int64_t deadline_us, struct hvd_error *err)
{
    struct endpoint_connection *requests = establishment->requests;
    int rc = check_ranks(establishment->peer_table, requests, establishment->request_count, err);
    if (rc != HVD_OK || establishment->request_count == 0)
        return rc;
    rc = establishment_open(establishment, err);
    if (rc == HVD_OK)
        rc = establishment_run(establishment, deadline_us, err);
    for (int i = 0; rc == HVD_OK && i < establishment->request_count; i++)
        requests[i].why = requests[i].fd < 0 ? establishment->dials[i].why : NULL;
    establishment_close(establishment);
    if (rc != HVD_OK)
        close_requests(requests, establishment->request_count);
    return rc;
}

int endpoint_establish(struct endpoint *endpoint, const struct peer_table *peer_table,
                       struct endpoint_connection *requests, int request_count, int64_t deadline_us,
                       struct hvd_error *err)
{
    struct establishment establishment = {.endpoint = endpoint,
                                          .peer_table = peer_table,
                                          .requests = requests,
                                          .request_count = request_count,
                                          .epoll_fd = -1};
    return establish_all(&establishment, deadline_us, err);
}

int endpoint_try_establish(struct endpoint *endpoint, const struct peer_table *peer_table,
                           struct endpoint_connection *requests, int request_count,
                           struct endpoint_timeout timeout, struct hvd_error *err)
{
    struct establishment establishment = {.endpoint = endpoint,
                                          .peer_table = peer_table,
                                          .requests = requests,
                                          .request_count = request_count,
                                          .epoll_fd = -1,
                                          .best_effort = true,
                                          .grace_us = timeout.grace_us};
    return establish_all(&establishment, timeout.deadline_us, err);
}

/* ---- Without waiting ---- */

int establishment_begin(struct establishment **establishmentp, struct endpoint *endpoint,
                        const struct peer_table *peer_table, struct endpoint_connection *requests,
                        int request_count, struct hvd_error *err)
{
    int rc = check_ranks(peer_table, requests, request_count, err);
    if (rc != HVD_OK)
        return rc;
    struct establishment *establishment = calloc(1, sizeof(*establishment));
    if (establishment == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to connect to %d ranks", request_count);
    *establishment = (struct establishment){.endpoint = endpoint,
                                            .peer_table = peer_table,
                                            .requests = requests,
                                            .request_count = request_count,
                                            .epoll_fd = -1};
    rc = establishment_open(establishment, err);
    if (rc != HVD_OK) {
        establishment_end(establishment);
        return rc;
    }
    *establishmentp = establishment;
    return HVD_OK;
}

/* The request whose rank has not even accepted a connection for too long, or -1. A rank that accepts and says
 * nothing is busy, and comes later. */
static int find_unreachable(const struct establishment *establishment)
{
    int64_t now_us = clock_us();
    for (int i = 0; i < establishment->request_count; i++) {
        const struct dial *dial = &establishment->dials[i];
        bool answers = dial->busy && establishment->handshakes[i].state != HANDSHAKE_CONNECTING;
        if (establishment->requests[i].connect && establishment->requests[i].fd < 0 && !answers &&
            now_us - dial->answered_us >= PATIENCE_LEASES * establishment->endpoint->lease_us)
            return i;
    }
    return -1;
}

int establishment_advance(struct establishment *establishment, int *rankp, struct hvd_error *err)
{
    begin_due(establishment);
    int rc = establishment->missing > 0 ? run_once(establishment, 0, err) : HVD_OK;
    if (rc != HVD_OK || establishment->missing == 0)
        return rc;
    begin_due(establishment);
    establishment->wake_us = next_due(establishment);
    int unreachable = find_unreachable(establishment);
    if (unreachable < 0)
        return HVD_IN_PROGRESS;
    *rankp = establishment->requests[unreachable].rank;
    report_missing(establishment, unreachable, err);
    return HVD_ERR_RANK_LOST;
}

int64_t establishment_deadline(const struct establishment *establishment)
{
    return establishment->wake_us;
}

int establishment_waits_for(const struct establishment *establishment)
{
    return establishment->missing == 0 ? -1 : establishment->requests[first_missing(establishment)].rank;
}

int establishment_fd(const struct establishment *establishment)
{
    return establishment->epoll_fd;
}

void establishment_after_fork(struct establishment *establishment)
{
    for (int i = 0; i < establishment->handshake_count; i++)
        if (establishment->handshakes[i].fd >= 0)
            close(establishment->handshakes[i].fd);
    close(establishment->epoll_fd);
}

void establishment_end(struct establishment *establishment)
{
    if (establishment == NULL)
        return;
    establishment_close(establishment);
    free(establishment);
}
