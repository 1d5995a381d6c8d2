/* endpoint.c: this rank's listening socket, and connections whose both ends have proved that they hold the
 * job key. */
#include "config.h"
#include "net/endpoint.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/address.h"
#include "auth/handshake.h"

#define STRANGERS_AT_ONCE 64 /* half-open connections beyond the wanted ones; the oldest gives way */
#define REPORTS_MAX       8  /* lines about dropped connections in one establish */
#define CONNECT_US        INT64_C(2000000) /* for one address to answer, while there are others */
#define PAUSE_FIRST_US    INT64_C(10000)   /* between two rounds over a peer's addresses; then it doubles */
#define PAUSE_LAST_US     INT64_C(500000)
#define MICROSECONDS      INT64_C(1000000)

struct endpoint {
    int fd;
    uint16_t port;
    int64_t lease_us;
    const struct hvd_log *log;
};

/* How far a connection that we begin has come. */
struct dial {
    struct in6_addr addresses[ROSTER_MAX_ADDRESSES]; /* best first */
    int address_count, next;
    int64_t not_before_us, pause_us;
    bool busy;       /* one of the greetings is for it */
    const char *why; /* what came of the last try */
};

/* One call of endpoint_establish. The first [want_count] greetings are those we begin, by want; the others
 * are of those who came to us. */
struct meeting {
    struct endpoint *endpoint;
    const struct roster *roster;
    struct endpoint_want *wants;
    int want_count, missing;
    struct dial *dials;
    struct greeting *greetings;
    struct pollfd *polls; /* of each greeting, then of the listening socket */
    int greeting_count;
    int reports;
    bool partly;      /* what does not come true in time is no failure, */
    int64_t grace_us; /* and time is up that long after a lane is complete */
};

/* ---- The listening socket ---- */

static int listen_on(struct endpoint *endpoint, const struct in6_addr *any, struct hvd_error *err)
{
    struct sockaddr_storage address;
    socklen_t length = address_socket(any, 0, &address);
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
    endpoint->port = address_port(&address);
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
    endpoint_after_fork(endpoint);
    free(endpoint);
}

/* ---- What is wanted ---- */

static void report(struct meeting *meeting, enum log_level level, int fd, const char *why)
{
    char text[ADDRESS_TEXT_BYTES];
    if (++meeting->reports > REPORTS_MAX)
        return;
    address_of_peer(fd, text);
    log_write(meeting->endpoint->log, level, "endpoint", "dropped a connection with %s: the other end %s%s",
              text, why, meeting->reports == REPORTS_MAX ? "; more of these are not reported" : "");
}

/* Why this cannot be one of ours; NULL where it may be. */
static const char *find_stranger(const struct meeting *meeting, const struct handshake_claim *claim)
{
    if (claim->epoch != meeting->roster->epoch)
        return "is of another start of this job";
    return claim->to == (uint32_t)meeting->roster->rank ? NULL : "looked for another rank";
}

/* What a peer of ours claims is what we wait for: sets *wantp. Otherwise says why not: as a rule it is ahead
 * of us, on its way into a process set that we make next. */
static const char *find_want(const struct meeting *meeting, const struct handshake_claim *claim, int *wantp)
{
    for (int i = 0; i < meeting->want_count; i++) {
        const struct endpoint_want *want = &meeting->wants[i];
        if (!want->connect && (uint32_t)want->rank == claim->from && want->purpose == claim->purpose &&
            want->tag == claim->tag) {
            *wantp = i;
            return want->fd < 0 ? NULL : "is connected already";
        }
    }
    return "is a rank that is not expected now";
}

/* A cut link must show within the lease: unanswered data by TCP_USER_TIMEOUT, an idle line by keepalive. The
 * job runs without them too, so that a refusal is no failure. */
static void set_options(int fd, int64_t lease_us)
{
    int lease_s = (int)((lease_us + MICROSECONDS - 1) / MICROSECONDS);
    int idle_s = lease_s * 2 / 5 > 0 ? lease_s * 2 / 5 : 1;
    int interval_s = lease_s / 5 > 0 ? lease_s / 5 : 1;
    int probes = (lease_s - idle_s) / interval_s > 0 ? (lease_s - idle_s) / interval_s : 1;
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},       {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, idle_s}, {IPPROTO_TCP, TCP_KEEPINTVL, interval_s},
        {IPPROTO_TCP, TCP_KEEPCNT, probes},  {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(lease_us / 1000)},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

static void fulfil(struct meeting *meeting, int want, struct greeting *greeting)
{
    set_options(greeting->fd, meeting->endpoint->lease_us);
    meeting->wants[want].fd = greeting->fd;
    meeting->missing--;
    greeting->fd = -1;
}

/* ---- Connections that we begin ---- */

static void dial_failed(struct meeting *meeting, int want, const char *why)
{
    struct dial *dial = &meeting->dials[want];
    char name[300];
    roster_name(meeting->roster, meeting->wants[want].rank, name, sizeof(name));
    log_write(meeting->endpoint->log, LOG_DEBUG, "endpoint", "address %d of %s: %s", dial->next, name, why);
    dial->busy = false;
    dial->why = why;
    dial->next++;
    if (dial->next < dial->address_count)
        return;
    dial->next = 0;
    dial->not_before_us = clock_us() + dial->pause_us;
    dial->pause_us = dial->pause_us * 2 < PAUSE_LAST_US ? dial->pause_us * 2 : PAUSE_LAST_US;
}

static void dial_next(struct meeting *meeting, int want)
{
    struct dial *dial = &meeting->dials[want];
    const struct endpoint_want *wanted = &meeting->wants[want];
    struct greeting *greeting = &meeting->greetings[want];
    const struct handshake_claim claim = {.purpose = (uint16_t)wanted->purpose,
                                          .tag = wanted->tag,
                                          .epoch = meeting->roster->epoch,
                                          .from = (uint32_t)meeting->roster->rank,
                                          .to = (uint32_t)wanted->rank};
    while (!dial->busy && clock_us() >= dial->not_before_us) {
        dial->busy = greeting_connect(greeting, meeting->roster->key, &claim, &dial->addresses[dial->next],
                                      meeting->roster->peers[wanted->rank].port) == 0;
        if (!dial->busy)
            dial_failed(meeting, want, greeting->why);
        else if (dial->address_count > 1)
            greeting->limit_us = clock_us() + CONNECT_US;
    }
}

static void dial_advance(struct meeting *meeting, int want)
{
    struct greeting *greeting = &meeting->greetings[want];
    enum greeting_state before = greeting->state;
    switch (greeting_advance(greeting)) {
    case GREETING_DONE:
        fulfil(meeting, want, greeting);
        return;
    case GREETING_FAILED:
        if (greeting->stranger)
            report(meeting, LOG_WARN, greeting->fd, greeting->why);
        greeting_end(greeting);
        dial_failed(meeting, want, greeting->why);
        return;
    default:
        if (before == GREETING_CONNECTING && greeting->state != before)
            greeting->limit_us = clock_us() + GREETING_LIMIT_US;
    }
}

/* ---- Connections that come to us ---- */

/* A free place among the greetings; where there is none the oldest loses its own. */
static struct greeting *free_greeting(struct meeting *meeting)
{
    struct greeting *oldest = &meeting->greetings[meeting->want_count];
    for (int i = meeting->want_count; i < meeting->greeting_count; i++) {
        struct greeting *greeting = &meeting->greetings[i];
        if (greeting->fd < 0)
            return greeting;
        if (greeting->limit_us < oldest->limit_us)
            oldest = greeting;
    }
    report(meeting, LOG_WARN, oldest->fd, "gave way to newer ones: too many connect and say nothing");
    greeting_end(oldest);
    return oldest;
}

static int accept_all(struct meeting *meeting, struct hvd_error *err)
{
    for (int i = 0; i < STRANGERS_AT_ONCE; i++) {
        int fd = accept4(meeting->endpoint->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            greeting_accept(free_greeting(meeting), meeting->roster->key, fd);
            continue;
        }
        if (errno == EAGAIN)
            return HVD_OK;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return error_set_errno(err, "cannot accept a connection of another rank");
    }
    return HVD_OK;
}

static void guest_advance(struct meeting *meeting, struct greeting *greeting)
{
    int want = -1;
    enum greeting_result result = greeting_advance(greeting);
    if (result == GREETING_ASKS || result == GREETING_DONE) {
        greeting->why = find_stranger(meeting, &greeting->claim);
        greeting->stranger = greeting->why != NULL;
        if (!greeting->stranger)
            greeting->why = find_want(meeting, &greeting->claim, &want);
        if (greeting->why != NULL)
            result = GREETING_FAILED;
    }
    if (result == GREETING_ASKS) {
        greeting_admit(greeting);
        result = greeting_advance(greeting);
    }
    if (result == GREETING_DONE)
        fulfil(meeting, want, greeting);
    if (result == GREETING_FAILED) {
        report(meeting, greeting->stranger ? LOG_WARN : LOG_INFO, greeting->fd, greeting->why);
        greeting_end(greeting);
    }
}

/* ---- All at once ---- */

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Begin what is due, and fill the list for poll. Returns when the next limit passes. */
static int64_t prepare(struct meeting *meeting, int64_t deadline_us)
{
    int64_t wake_us = deadline_us;
    for (int i = 0; i < meeting->want_count; i++) {
        if (!meeting->wants[i].connect || meeting->wants[i].fd >= 0)
            continue;
        dial_next(meeting, i);
        if (!meeting->dials[i].busy)
            wake_us = earlier(wake_us, meeting->dials[i].not_before_us);
    }
    for (int i = 0; i < meeting->greeting_count; i++) {
        const struct greeting *greeting = &meeting->greetings[i];
        meeting->polls[i] = (struct pollfd){.fd = greeting->fd, .events = greeting_events(greeting)};
        if (greeting->fd >= 0)
            wake_us = earlier(wake_us, greeting->limit_us);
    }
    meeting->polls[meeting->greeting_count] = (struct pollfd){.fd = meeting->endpoint->fd, .events = POLLIN};
    return wake_us;
}

static void advance_all(struct meeting *meeting)
{
    static const char late[] = "did not finish its handshake in time";
    int64_t now_us = clock_us();
    for (int i = 0; i < meeting->greeting_count; i++) {
        struct greeting *greeting = &meeting->greetings[i];
        bool ours = i < meeting->want_count;
        if (greeting->fd < 0)
            continue;
        if (meeting->polls[i].revents != 0) {
            if (ours)
                dial_advance(meeting, i);
            else
                guest_advance(meeting, greeting);
        } else if (now_us >= greeting->limit_us) {
            if (!ours)
                report(meeting, LOG_WARN, greeting->fd, late);
            greeting_end(greeting);
            if (ours)
                dial_failed(meeting, i, greeting->state == GREETING_CONNECTING ? "does not answer" : late);
        }
    }
}

/* Name the first rank that is missing, and what was tried. */
static int say_missing(const struct meeting *meeting, struct hvd_error *err)
{
    int first = 0;
    while (meeting->wants[first].fd >= 0)
        first++;
    const struct endpoint_want *want = &meeting->wants[first];
    const struct dial *dial = &meeting->dials[first];
    char peer[300], self[300], more[60] = "", tried[4 * ADDRESS_TEXT_BYTES] = "";
    roster_name(meeting->roster, want->rank, peer, sizeof(peer));
    roster_name(meeting->roster, meeting->roster->rank, self, sizeof(self));
    if (meeting->missing > 1)
        snprintf(more, sizeof(more), "; %d more %s missing", meeting->missing - 1,
                 meeting->missing == 2 ? "rank is" : "ranks are");
    if (!want->connect)
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
                     peer, meeting->roster->peers[want->rank].port, tried,
                     dial->why != NULL ? dial->why : "no answer yet", more);
}

static bool is_lane_complete(const struct meeting *meeting)
{
    bool complete = false;
    for (int i = 0; i < meeting->want_count && !complete; i++) {
        complete = true;
        for (int k = 0; k < meeting->want_count; k++)
            if (meeting->wants[k].lane == meeting->wants[i].lane && meeting->wants[k].fd < 0)
                complete = false;
    }
    return complete;
}

static int meeting_run(struct meeting *meeting, int64_t deadline_us, struct hvd_error *err)
{
    bool hurries = false;
    while (meeting->missing > 0) {
        int64_t wake_us = prepare(meeting, deadline_us);
        int ready = poll(meeting->polls, (nfds_t)meeting->greeting_count + 1, clock_ms_until(wake_us));
        if (ready < 0 && errno != EINTR)
            return error_set_errno(err, "cannot wait for the other ranks");
        if (ready < 0)
            continue;
        advance_all(meeting);
        if (meeting->missing == 0)
            break;
        if (meeting->partly && !hurries && is_lane_complete(meeting)) {
            hurries = true;
            deadline_us = earlier(deadline_us, clock_us() + meeting->grace_us);
        }
        if (clock_us() >= deadline_us)
            return meeting->partly ? HVD_OK : say_missing(meeting, err);
        if (meeting->polls[meeting->greeting_count].revents != 0) {
            int rc = accept_all(meeting, err);
            if (rc != HVD_OK)
                return rc;
        }
    }
    return HVD_OK;
}

static int check_wants(const struct roster *roster, struct endpoint_want *wants, int want_count,
                       struct hvd_error *err)
{
    for (int i = 0; i < want_count; i++)
        wants[i].fd = -1;
    for (int i = 0; i < want_count; i++)
        if (wants[i].rank < 0 || wants[i].rank >= roster->size || wants[i].rank == roster->rank)
            return error_set(err, HVD_ERR_INVALID, "rank %d cannot connect to rank %d of %d", roster->rank,
                             wants[i].rank, roster->size);
    return HVD_OK;
}

static int meeting_open(struct meeting *meeting, struct hvd_error *err)
{
    struct address_net nets[ADDRESS_MAX_NETS];
    int net_count = address_nets(nets, ADDRESS_MAX_NETS);
    meeting->missing = meeting->want_count;
    meeting->greeting_count = 2 * meeting->want_count + STRANGERS_AT_ONCE;
    meeting->dials = calloc((size_t)meeting->want_count, sizeof(*meeting->dials));
    meeting->greetings = calloc((size_t)meeting->greeting_count, sizeof(*meeting->greetings));
    meeting->polls = calloc((size_t)meeting->greeting_count + 1, sizeof(*meeting->polls));
    if (meeting->dials == NULL || meeting->greetings == NULL || meeting->polls == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to connect to %d ranks", meeting->want_count);
    for (int i = 0; i < meeting->greeting_count; i++)
        meeting->greetings[i].fd = -1;
    for (int i = 0; i < meeting->want_count; i++) {
        const struct roster_peer *peer = &meeting->roster->peers[meeting->wants[i].rank];
        struct dial *dial = &meeting->dials[i];
        dial->pause_us = PAUSE_FIRST_US;
        if (meeting->wants[i].address != NULL) {
            dial->address_count = 1;
            dial->addresses[0] = *meeting->wants[i].address;
            continue;
        }
        dial->address_count = peer->address_count;
        memcpy(dial->addresses, peer->addresses, sizeof(dial->addresses));
        address_sort(dial->addresses, dial->address_count, nets, net_count);
        address_spread(dial->addresses, dial->address_count, nets, net_count, meeting->wants[i].lane);
    }
    return HVD_OK;
}

static void meeting_close(struct meeting *meeting)
{
    for (int i = 0; meeting->greetings != NULL && i < meeting->greeting_count; i++)
        greeting_end(&meeting->greetings[i]);
    free(meeting->dials);
    free(meeting->greetings);
    free(meeting->polls);
}

/* What is left open on failure: nothing. */
static int meet_all(struct meeting *meeting, int64_t deadline_us, struct hvd_error *err)
{
    struct endpoint_want *wants = meeting->wants;
    int rc = check_wants(meeting->roster, wants, meeting->want_count, err);
    if (rc != HVD_OK || meeting->want_count == 0)
        return rc;
    rc = meeting_open(meeting, err);
    if (rc == HVD_OK)
        rc = meeting_run(meeting, deadline_us, err);
    for (int i = 0; rc == HVD_OK && i < meeting->want_count; i++)
        wants[i].why = wants[i].fd < 0 ? meeting->dials[i].why : NULL;
    meeting_close(meeting);
    for (int i = 0; rc != HVD_OK && i < meeting->want_count; i++) {
        if (wants[i].fd >= 0)
            close(wants[i].fd);
        wants[i].fd = -1;
    }
    return rc;
}

int endpoint_establish(struct endpoint *endpoint, const struct roster *roster, struct endpoint_want *wants,
                       int want_count, int64_t deadline_us, struct hvd_error *err)
{
    struct meeting meeting = {
        .endpoint = endpoint, .roster = roster, .wants = wants, .want_count = want_count};
    return meet_all(&meeting, deadline_us, err);
}

int endpoint_try(struct endpoint *endpoint, const struct roster *roster, struct endpoint_want *wants,
                 int want_count, struct endpoint_patience patience, struct hvd_error *err)
{
    struct meeting meeting = {.endpoint = endpoint,
                              .roster = roster,
                              .wants = wants,
                              .want_count = want_count,
                              .partly = true,
                              .grace_us = patience.grace_us};
    return meet_all(&meeting, patience.deadline_us, err);
}
