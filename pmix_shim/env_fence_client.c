/* env_fence_client.c: the end of the env provider's fence on all ranks but 0: connects, sends this rank's
 * page, and asks for blobs of other ranks. */
#include "config.h"
#include "pmix_shim/env_fence.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/descriptors.h"
#include "base/launch_variables.h"
#include "base/log.h"
#include "base/news.h"
#include "pmix_shim/node_ranks.h"
#include "pmix_shim/timed_call.h"

/* Rank 0 may not listen yet. RETRY_US lies between two attempts; ADDRESS_US is how long one address may
 * take. */
#define RETRY_US   INT64_C(50000)
#define ADDRESS_US INT64_C(2000000)
#define TELL_US    INT64_C(2000000)  /* after that the user is told what keeps this rank from rank 0's node */
#define VAIN_US    INT64_C(10000000) /* after that a node that runs will not be reached */
/* Rank 0 answers one rank after the other: a rank among many waits so much longer, for each, before it finds
 * that silent. */
#define ANSWER_US INT64_C(1000)
/* How often rank 0 may close a connection before its proof: where many connect, one may have to give way. */
#define MAX_REFUSALS 3
#define PLACE_BYTES  400

struct fence_client {
    const struct env_job *job;
    struct addrinfo *addresses;
    struct secure_channel channel; /* open once the handshake is done */
    uint32_t fence;
    int *node_ranks; /* those of this node, from the first fence on */
    int node_rank_count;
};

/* The addresses of a name. A resolver may block far longer than a job's start may take. */
struct lookup {
    char host[256];
    char port[8];
    int flags;
    struct addrinfo *addresses;
    int rc; /* of getaddrinfo */
};

static void look_up(void *arg)
{
    struct lookup *lookup = arg;
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | lookup->flags};
    lookup->rc = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->addresses);
}

static void lookup_discard(void *arg)
{
    struct lookup *lookup = arg;
    if (lookup->rc == 0)
        freeaddrinfo(lookup->addresses);
    free(lookup);
}

static const char *server_of(const struct env_job *job)
{
    return job->server != NULL ? job->server : "rank 0";
}

/* Where the address was given, for errors. */
static const char *host_from(const struct env_job *job)
{
    return job->is_agent ? "--join" : MASTER_ADDR_VARIABLE;
}

/* Find the addresses of rank 0's node. A number needs no resolver, and so no thread. */
static int find_addresses(const struct env_job *job, int64_t deadline_us, struct addrinfo **addressesp,
                          struct hvd_error *err)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (lookup == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    snprintf(lookup->host, sizeof(lookup->host), "%s", job->master_host);
    snprintf(lookup->port, sizeof(lookup->port), "%s", job->master_port);
    lookup->flags = AI_NUMERICHOST;
    look_up(lookup);
    if (lookup->rc == EAI_NONAME) {
        lookup->flags = 0;
        int rc = timed_call(&(struct timed_call){look_up, lookup_discard, lookup}, deadline_us);
        if (rc == HVD_ERR_TIMEOUT)
            return error_set(err, rc,
                             "%s=%s: the resolver of names did not answer in time; give the address as a "
                             "number, or see /etc/resolv.conf",
                             host_from(job), job->master_host);
        if (rc != HVD_OK) {
            free(lookup);
            return error_set(err, rc, "no thread to look up %s=%s", host_from(job), job->master_host);
        }
    }
    int rc = lookup->rc;
    if (rc == 0)
        *addressesp = lookup->addresses;
    free(lookup);
    return rc == 0 ? HVD_OK
                   : error_set(err, HVD_ERR_INVALID, "%s=%s: %s; give the name or address of %s's node",
                               host_from(job), job->master_host, gai_strerror(rc), server_of(job));
}

int fence_client_open(struct fence_client **clientp, const struct env_job *job, int64_t deadline_us,
                      struct hvd_error *err)
{
    struct fence_client *fence_client = calloc(1, sizeof(*fence_client));
    if (fence_client == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    fence_client->job = job;
    fence_client->channel.fd = -1;
    int rc = find_addresses(job, deadline_us, &fence_client->addresses, err);
    if (rc != HVD_OK) {
        fence_client_close(fence_client);
        return rc;
    }
    *clientp = fence_client;
    return HVD_OK;
}

struct fence_client *fence_client_of(const struct env_job *job, struct handshake *handshake)
{
    struct fence_client *fence_client = calloc(1, sizeof(*fence_client));
    if (fence_client == NULL)
        return NULL;
    fence_client->job = job;
    if (secure_channel_open(&fence_client->channel, handshake, NULL) == HVD_OK)
        return fence_client;
    free(fence_client);
    return NULL;
}

int fence_client_fd(const struct fence_client *fence_client)
{
    return fence_client->channel.fd;
}

void fence_client_close(struct fence_client *fence_client)
{
    if (fence_client == NULL)
        return;
    secure_channel_close(&fence_client->channel);
    if (fence_client->addresses != NULL)
        freeaddrinfo(fence_client->addresses);
    free(fence_client->node_ranks);
    free(fence_client);
}

/* ---- Connect ---------------------------------------------------------------------------------- */

/* On loopback, a connection to a port on which nobody listens can connect to itself. */
static bool is_self_connection(int fd)
{
    struct sockaddr_storage own = {0};
    struct sockaddr_storage peer = {0};
    socklen_t own_length = sizeof(own);
    socklen_t peer_length = sizeof(peer);
    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 && own_length == peer_length &&
           memcmp(&own, &peer, own_length) == 0;
}

/* Wait until [fd] has one of [events] or news come, at the latest until [until_us]. True if [fd] has. */
static bool await_socket(int fd, short events, const int *newsp, int64_t until_us)
{
    struct pollfd pollers[] = {{.fd = fd, .events = events}, news_poller(newsp)};
    int ready = poll(pollers, 2, clock_ms_until(until_us));
    return ready > 0 && pollers[0].revents != 0;
}

/* Returns a connected socket, or -1 with errno. */
static int try_connect(const struct addrinfo *address, const int *newsp, int64_t deadline_us)
{
    const int on = 1;
    int problem = 0;
    socklen_t length = sizeof(problem);
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
        problem = errno;
        if (problem == EINPROGRESS) {
            bool ready = false;
            do
                ready = await_socket(fd, POLLOUT, newsp, deadline_us);
            while (!ready && !news_came(newsp) && clock_us() < deadline_us);
            problem = ETIMEDOUT;
            if (ready)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
        }
    }
    if (problem == 0 && is_self_connection(fd))
        problem = ECONNREFUSED;
    if (problem == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd;
    }
    close(fd);
    errno = problem;
    return -1;
}

/* How long a rank waits for the answer of rank 0 where it waits [us] for the network. */
static int64_t for_answer(const struct env_job *job, int64_t us)
{
    return us + job->size * ANSWER_US;
}

static void tell_of_delay(const struct env_job *job, int64_t us, const char *why)
{
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    log_write(job->log, LOG_WARN, "wire-up", "%s has not reached %s at %s port %s for %d s: %s", host,
              server_of(job), job->master_host, job->master_port, (int)(us / 1000000), why);
}

/* Wait until the handshake can go on. Where rank 0 runs it answers at once: the user is told if not. */
static void await_handshake(const struct env_job *job, const struct handshake *handshake, int64_t until_us)
{
    int64_t tell_us = handshake->begun_us + for_answer(job, TELL_US);
    bool tells = job->runs && clock_us() < tell_us && tell_us < until_us;
    bool ready =
        await_socket(handshake->fd, handshake_poll_events(handshake), job->news, tells ? tell_us : until_us);
    if (tells && !ready && clock_us() >= tell_us)
        tell_of_delay(job, for_answer(job, TELL_US),
                      "what listens there does not answer as hvd; see whether another program has that port");
}

/* Do the handshake on [fd], and take ownership of it. Rank 0 may have listened for long before it comes to
 * this start, and sends its challenge only then. Returns HVD_ERR_INVALID if the other end is not a valid
 * peer, HVD_ERR_SYSTEM if the network failed, HVD_ERR_RANK_LOST if rank 0 closed the connection, and
 * HVD_IN_PROGRESS at the deadline or when news have come. */
static int authenticate(struct fence_client *fence_client, int fd, int64_t deadline_us, struct hvd_error *why)
{
    const struct env_job *job = fence_client->job;
    const struct handshake_claim claim = {.purpose = job->is_agent ? HANDSHAKE_PURPOSE_AGENT
                                                                   : HANDSHAKE_PURPOSE_FENCE,
                                          .epoch = job->epoch,
                                          .from = (uint32_t)job->rank,
                                          .size = (uint32_t)job->size};
    struct handshake handshake;
    handshake_connect(&handshake, job->key, &claim, fd);
    enum handshake_result result = handshake_advance(&handshake);
    while (result == HANDSHAKE_WAITS && clock_us() < deadline_us && !news_came(job->news)) {
        await_handshake(job, &handshake, deadline_us);
        result = handshake_advance(&handshake);
    }
    int rc = result == HANDSHAKE_DONE ? secure_channel_open(&fence_client->channel, &handshake, why) : HVD_OK;
    handshake_close(&handshake);
    if (result == HANDSHAKE_DONE)
        return rc;
    if (result == HANDSHAKE_WAITS)
        return HVD_IN_PROGRESS;
    return error_set(why, fence_failure_status(&handshake), "it %s", handshake.why);
}

static void tell_of_network(const struct env_job *job, int problem)
{
    char why[200];
    snprintf(why, sizeof(why), "%s; see whether a firewall is between the two, or a route is missing",
             strerror(problem));
    tell_of_delay(job, TELL_US, why);
}

/* Nobody listens where a rank 0 has not started yet, which is no reason to complain: the network is. Returns
 * whether it is one to give up. */
static bool is_in_vain(const struct env_job *job, int problem, int64_t began_us, bool *toldp)
{
    int64_t waited_us = clock_us() - began_us;
    if (problem == ECONNREFUSED || problem == ECONNRESET || waited_us < TELL_US)
        return false;
    if (!*toldp)
        tell_of_network(job, problem);
    *toldp = true;
    return (job->listens || job->runs) && waited_us >= VAIN_US;
}

/* Nobody listens where the server did. The next epoch does without a lost rank 0, but there is no next epoch
 * without a launcher. */
static int server_has_ended(const struct env_job *job, struct hvd_error *err)
{
    if (job->server == NULL)
        return error_set(err, HVD_ERR_RANK_LOST, "%s was lost as the job began again", server_of(job));
    return error_set(
        err, HVD_ERR_STATE,
        "%s has ended, as nobody listens at %s port %s any more, and no epoch begins without it; "
        "start the job again, which goes on from its last commit on disk if it has --hvd-state-dir",
        server_of(job), job->master_host, job->master_port);
}

/* What listens at [place] has accepted a connection and said nothing, until the deadline or so long that it
 * is no rank 0. */
static int server_is_silent(const struct env_job *job, const char *place, bool in_vain, struct hvd_error *err)
{
    if (!in_vain)
        return error_set(err, HVD_ERR_TIMEOUT,
                         "%s at %s did not answer in time; has it started, and is the port its own? "
                         "--hvd-start-timeout waits longer",
                         server_of(job), place);
    return error_set(
        err, HVD_ERR_TIMEOUT,
        "what listens for %s at %s accepted the connection, but did not answer as hvd within %d s; "
        "see whether another program has that port, or %s leads to another node",
        server_of(job), place, (int)(for_answer(job, VAIN_US) / 1000000), host_from(job));
}

/* "n1 port 20101"; "n1 (172.17.0.1) port 20101" where a name stands for that address, perhaps among others.
 */
static void describe_place(const struct env_job *job, const struct addrinfo *address, char text[PLACE_BYTES])
{
    char number[INET6_ADDRSTRLEN] = "";
    getnameinfo(address->ai_addr, address->ai_addrlen, number, sizeof(number), NULL, 0, NI_NUMERICHOST);
    if (number[0] == 0 || strcmp(number, job->master_host) == 0)
        snprintf(text, PLACE_BYTES, "%s port %s", job->master_host, job->master_port);
    else
        snprintf(text, PLACE_BYTES, "%s (%s) port %s", job->master_host, number, job->master_port);
}

static int connect_to_server(struct fence_client *fence_client, int64_t deadline_us, struct hvd_error *err)
{
    const struct env_job *job = fence_client->job;
    struct hvd_error why = {""};
    char what[64], place[PLACE_BYTES];
    int problem = 0;
    int refusals = 0;
    int64_t began_us = clock_us();
    bool told = false, in_vain = false;
    snprintf(what, sizeof(what), "cannot connect to %s", server_of(job));
    while (clock_us() < deadline_us && !in_vain) {
        for (const struct addrinfo *address = fence_client->addresses; address != NULL;
             address = address->ai_next) {
            int64_t limit_us = clock_us() + ADDRESS_US;
            int fd = try_connect(address, job->news, limit_us < deadline_us ? limit_us : deadline_us);
            if (fd < 0) {
                problem = errno;
                if (news_came(job->news))
                    return news_error(err);
                if (descriptors_are_used_up(problem))
                    return descriptors_error(err, problem, what, 1);
                if (job->listens && problem == ECONNREFUSED)
                    return server_has_ended(job, err);
                continue;
            }
            describe_place(job, address, place);
            limit_us = job->runs ? clock_us() + for_answer(job, VAIN_US) : INT64_MAX;
            int rc = authenticate(fence_client, fd, limit_us < deadline_us ? limit_us : deadline_us, &why);
            if (rc == HVD_OK)
                return rc;
            if (rc == HVD_IN_PROGRESS && news_came(job->news))
                return news_error(err);
            if (rc == HVD_IN_PROGRESS)
                return server_is_silent(job, place, limit_us < deadline_us, err);
            bool refused = rc == HVD_ERR_INVALID || (rc == HVD_ERR_RANK_LOST && ++refusals == MAX_REFUSALS);
            if (refused) /* else the connection broke: rank 0 of an earlier start was ending */
                return error_set(err, HVD_ERR_INVALID, "%s at %s refused this %s (%s): %s", server_of(job),
                                 place, job->is_agent ? "agent" : "rank", why.text, job->must_agree);
            problem = ECONNRESET;
        }
        in_vain = is_in_vain(job, problem, began_us, &told);
        int64_t again_us = clock_us() + RETRY_US;
        await_socket(-1, 0, job->news, again_us < deadline_us ? again_us : deadline_us);
    }
    return error_set(err, HVD_ERR_TIMEOUT, "%s cannot be reached at %s port %s: %s; %s", server_of(job),
                     job->master_host, job->master_port, strerror(problem),
                     in_vain ? "see whether a firewall is between the two, or a route is missing"
                             : "has it started? --hvd-start-timeout waits longer");
}

int fence_client_connect(struct fence_client *fence_client, int64_t deadline_us,
                         struct secure_channel *channel, struct hvd_error *err)
{
    int rc = connect_to_server(fence_client, deadline_us, err);
    if (rc != HVD_OK)
        return rc;
    *channel = fence_client->channel;
    fence_client->channel = (struct secure_channel){.fd = -1};
    return HVD_OK;
}

/* ---- Fence ------------------------------------------------------------------------------------ */

#define REASON_BYTES 400 /* of a sentence that a message brings; the rest is cut */

/* Report the status and the sentence in a message. The user sees it, so no byte of it is one that a terminal
 * obeys. */
static int report_failure(const struct fence_message *message, const char *who, struct hvd_error *err)
{
    char reason[REASON_BYTES + 1];
    int status =
        message->number >= 1 && message->number <= -HVD_ERR_SYSTEM ? -(int)message->number : HVD_ERR_SYSTEM;
    size_t length = message->length < REASON_BYTES ? message->length : REASON_BYTES;
    for (size_t i = 0; i < length; i++)
        reason[i] = is_printable_byte(message->bytes[i]) ? (char)message->bytes[i] : '?';
    reason[length] = 0;
    return error_set(err, status, "%s%s", who, length > 0 ? reason : "no reason was given");
}

/* Say that rank 0's connection failed, or what it sent was wrong. */
static int server_failed(const struct fence_client *fence_client, int rc, const struct hvd_error *why,
                         struct hvd_error *err)
{
    return error_set(err, rc == HVD_ERR_SYSTEM ? HVD_ERR_RANK_LOST : rc, "%s at %s port %s: %s",
                     server_of(fence_client->job), fence_client->job->master_host,
                     fence_client->job->master_port, why->text);
}

/* Check that a message is of this kind. [rc] is the status of receiving it, and [why] its reason. */
static int check_message(const struct fence_client *fence_client, int rc, uint32_t kind,
                         const struct fence_message *message, struct hvd_error *why, struct hvd_error *err)
{
    if (rc == HVD_OK && message->kind == FENCE_FAIL)
        return report_failure(message, fence_client->job->server == NULL ? "rank 0 gave up: " : "", err);
    if (rc == HVD_OK && message->kind != kind)
        rc = error_set(why, HVD_ERR_MISMATCH, "it sent a message of kind %u; expected %u", message->kind,
                       kind);
    return rc >= 0 ? rc : server_failed(fence_client, rc, why, err);
}

/* Receive a message, which must be of this kind, and is valid until the next call. */
static int await_message(struct fence_client *fence_client, uint32_t kind, int64_t deadline_us,
                         struct fence_message *message, struct hvd_error *err)
{
    struct secure_channel *channel = &fence_client->channel;
    const int *news = fence_client->job->news;
    struct hvd_error why = {""};
    int rc = HVD_IN_PROGRESS;
    for (;;) {
        rc = secure_channel_flush(channel, &why);
        if (rc >= 0)
            rc = fence_message_receive(channel, message, &why);
        if (rc == HVD_OK && message->kind == FENCE_NEWS && kind != FENCE_NEWS) {
            if (kind == FENCE_EPOCH && message->number == FENCE_SPARE)
                deadline_us = INT64_MAX;
            continue;
        }
        if (rc != HVD_IN_PROGRESS || clock_us() >= deadline_us)
            break;
        if (news_came(news))
            return news_error(err);
        await_socket(channel->fd, (short)(channel->out.length > 0 ? POLLIN | POLLOUT : POLLIN), news,
                     deadline_us);
    }
    if (rc == HVD_IN_PROGRESS)
        return error_set(err, HVD_ERR_TIMEOUT,
                         "%s did not answer in time%s; --hvd-start-timeout waits longer",
                         server_of(fence_client->job),
                         kind == FENCE_DONE || kind == FENCE_EPOCH ? ", as not all ranks have joined" : "");
    return check_message(fence_client, rc, kind, message, &why, err);
}

int fence_client_take(struct fence_client *fence_client, uint32_t kind, struct fence_message *answer,
                      struct hvd_error *err)
{
    struct hvd_error why = {""};
    int rc = fence_message_receive(&fence_client->channel, answer, &why);
    return check_message(fence_client, rc, kind, answer, &why, err);
}

int fence_client_tell(struct fence_client *fence_client, const struct fence_message *message,
                      struct hvd_error *err)
{
    struct hvd_error why = {""};
    int rc = fence_message_send(&fence_client->channel, message, &why);
    if (rc == HVD_OK)
        rc = secure_channel_flush(&fence_client->channel, &why);
    return rc >= 0 ? HVD_OK : server_failed(fence_client, rc, &why, err);
}

int fence_client_ask(struct fence_client *fence_client, const struct fence_message *question, uint32_t kind,
                     int64_t deadline_us, struct fence_message *answer, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int rc = fence_client->channel.fd < 0 ? connect_to_server(fence_client, deadline_us, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    rc = fence_message_send(&fence_client->channel, question, &why);
    return rc == HVD_OK ? await_message(fence_client, kind, deadline_us, answer, err)
                        : server_failed(fence_client, rc, &why, err);
}

/* All ranks have come to the fence. The first time rank 0 says which of them are on this node. */
static int take_release(struct fence_client *fence_client, const struct fence_message *message,
                        struct hvd_error *why)
{
    if (message->number != fence_client->fence)
        return error_set(why, HVD_ERR_MISMATCH, "it is in fence %u; expected %u", message->number,
                         fence_client->fence);
    return fence_client->fence > 1
               ? HVD_OK
               : node_ranks_decode(message->bytes, message->length, fence_client->job,
                                   &fence_client->node_ranks, &fence_client->node_rank_count, why);
}

int fence_client_fence(struct fence_client *fence_client, struct store *store, int64_t deadline_us,
                       struct hvd_error *err)
{
    size_t length = 0;
    const void *page = store_page(store, &length);
    const struct fence_message page_message = {FENCE_PAGE, ++fence_client->fence,
                                               (uint32_t)fence_client->job->rank, page, length};
    struct fence_message message;
    struct hvd_error why = {""};
    int rc = fence_client_ask(fence_client, &page_message, FENCE_DONE, deadline_us, &message, err);
    if (rc != HVD_OK)
        return rc;
    rc = take_release(fence_client, &message, &why);
    if (rc != HVD_OK)
        return server_failed(fence_client, rc, &why, err);
    store_forget_page(store);
    return HVD_OK;
}

int fence_client_get(struct fence_client *fence_client, int rank, const char *key, int64_t deadline_us,
                     struct wireup_blob *blob, struct hvd_error *err)
{
    const struct fence_message question = {FENCE_ASK, 0, (uint32_t)rank, (const unsigned char *)key,
                                           strlen(key)};
    struct fence_message message;
    int rc = fence_client_ask(fence_client, &question, FENCE_BLOB, deadline_us, &message, err);
    if (rc != HVD_OK)
        return rc;
    if (message.number != HVD_OK)
        return report_failure(&message, "", err);
    char *copy = malloc(message.length + 1);
    if (copy == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    memcpy(copy, message.bytes, message.length);
    copy[message.length] = 0;
    blob->bytes = copy;
    blob->length = message.length;
    return HVD_OK;
}

int fence_client_node_ranks(const struct fence_client *fence_client, int **ranksp, int *countp,
                            struct hvd_error *err)
{
    size_t bytes = (size_t)fence_client->node_rank_count * sizeof(**ranksp);
    *countp = fence_client->node_rank_count;
    *ranksp = malloc(bytes + 1);
    if (*ranksp == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", *countp);
    memcpy(*ranksp, fence_client->node_ranks, bytes);
    return HVD_OK;
}
