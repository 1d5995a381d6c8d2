/* env_fence_server.c: rank 0's end of the env provider's fence: gather every rank's page, give all to each.
 */
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
#include "base/parse.h"

/* Connections that have not proved themselves: how many at once, and for how long. */
#define STRANGERS   16
#define STRANGER_US INT64_C(10000000)
/* Rank 0 gives up this much before the others do, so that they hear from it who is missing. */
#define EARLY_US INT64_C(500000)

struct guest {
    struct channel channel;
    char from[80];
    struct channel_id id; /* as it says */
    bool greeted;         /* its hello was right: it holds the key, or repeats one who did */
    bool known;           /* it holds the key: a sealed message came */
    bool arrived;         /* its page of this fence is here */
    int given;            /* pages it was sent of this fence */
    int64_t give_up_us;   /* until it is known */
};

struct hub {
    const struct env_job *job;
    int listener;
    uint32_t fence; /* counts the fences from 1 */
    int missing;    /* ranks whose page of this fence is not here */
    size_t *begins; /* [size]: where in store_pages this fence's page of a rank begins */
    int guest_count;
    struct guest *guests;   /* [size - 1 + STRANGERS] */
    struct pollfd *pollers; /* the same and one more */
};

static int guest_room(const struct hub *hub)
{
    return hub->job->size - 1 + STRANGERS;
}

/* ---- The listening socket --------------------------------------------------------------------- */

static int try_listen(int family, uint16_t port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = INADDR_ANY};
    const int on = 1;
    const int off = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int rc = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (rc == 0 && family == AF_INET6)
        rc = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (rc == 0)
        rc = family == AF_INET6 ? bind(fd, (struct sockaddr *)&six, sizeof(six))
                                : bind(fd, (struct sockaddr *)&four, sizeof(four));
    if (rc == 0)
        rc = listen(fd, SOMAXCONN);
    if (rc == 0)
        return fd;
    int saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

int hub_open(struct hub **hubp, const struct env_job *job, struct hvd_error *err)
{
    int64_t port = 0;
    const char *why = NULL;
    int rc = HVD_OK;
    struct hub *hub = calloc(1, sizeof(*hub));
    if (hub == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    hub->job = job;
    hub->listener = -1;
    hub->begins = calloc((size_t)job->size, sizeof(hub->begins[0]));
    hub->guests = calloc((size_t)guest_room(hub), sizeof(hub->guests[0]));
    hub->pollers = calloc((size_t)guest_room(hub) + 1, sizeof(hub->pollers[0]));
    if (hub->begins == NULL || hub->guests == NULL || hub->pollers == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
        goto fail;
    }
    rc = parse_count(job->master_port, &port, &why);
    if (rc == 0)
        hub->listener = try_listen(AF_INET6, (uint16_t)port);
    if (hub->listener < 0 && errno == EAFNOSUPPORT)
        hub->listener = try_listen(AF_INET, (uint16_t)port);
    if (hub->listener < 0) {
        rc = error_set(err, HVD_ERR_INVALID,
                       "rank 0 cannot listen on MASTER_PORT=%s: %s; give a port that no other process uses",
                       job->master_port, strerror(errno));
        goto fail;
    }
    *hubp = hub;
    return HVD_OK;
fail:
    hub_close(hub);
    return rc;
}

void hub_close(struct hub *hub)
{
    if (hub == NULL)
        return;
    for (int i = 0; i < hub->guest_count; i++)
        channel_fini(&hub->guests[i].channel);
    if (hub->listener >= 0)
        close(hub->listener);
    free(hub->begins);
    free(hub->guests);
    free(hub->pollers);
    free(hub);
}

/* ---- Who comes -------------------------------------------------------------------------------- */

static void drop_guest(struct hub *hub, int i, const char *why)
{
    log_write(hub->job->log, LOG_WARN, "wire-up", "dropped a connection from %s: %s", hub->guests[i].from,
              why);
    channel_fini(&hub->guests[i].channel);
    hub->guests[i] = hub->guests[--hub->guest_count];
}

static void accept_guests(struct hub *hub)
{
    const int on = 1;
    while (hub->guest_count < guest_room(hub)) {
        struct sockaddr_storage address;
        socklen_t length = sizeof(address);
        char host[48];
        char port[8];
        int fd = accept4(hub->listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        struct guest *guest = &hub->guests[hub->guest_count++];
        *guest = (struct guest){.id.epoch = hub->job->epoch, .give_up_us = clock_us() + STRANGER_US};
        channel_init(&guest->channel, fd, hub->job->key);
        if (getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) == 0)
            snprintf(guest->from, sizeof(guest->from), "%s port %s",
                     strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host, port);
    }
}

/* ---- Gather ----------------------------------------------------------------------------------- */

/* Its first sealed message is here, so it holds the key now. Is it a rank of this job that is not here yet?
 */
static int check_identity(const struct hub *hub, const struct guest *guest, struct hvd_error *why)
{
    uint32_t size = (uint32_t)hub->job->size;
    if (guest->id.size != size || guest->id.rank == 0 || guest->id.rank >= size)
        return error_set(why, HVD_ERR_MISMATCH,
                         "it has RANK=%u and WORLD_SIZE=%u, rank 0 has WORLD_SIZE=%u; give all ranks "
                         "the same WORLD_SIZE, and each its own RANK",
                         guest->id.rank, guest->id.size, size);
    for (int i = 0; i < hub->guest_count; i++) {
        const struct guest *other = &hub->guests[i];
        if (other != guest && other->known && other->id.rank == guest->id.rank)
            return error_set(why, HVD_ERR_MISMATCH,
                             "RANK=%u is also that of the process at %s; give each rank its own",
                             guest->id.rank, other->from);
    }
    return HVD_OK;
}

static int take_page(struct hub *hub, struct guest *guest, struct store *store, struct hvd_error *why)
{
    struct message message;
    bool first = !guest->known;
    int rc = message_receive(&guest->channel, &message, why);
    if (rc != HVD_OK)
        return rc;
    guest->known = true;
    if (first)
        rc = check_identity(hub, guest, why);
    if (rc != HVD_OK)
        return rc;
    if (message.kind != MESSAGE_PAGE || message.number != hub->fence || message.rank != guest->id.rank)
        return error_set(why, HVD_ERR_MISMATCH,
                         "it is in fence %u, rank 0 is in fence %u; do all ranks run the same hvd?",
                         message.number, hub->fence);
    rc = store_merge(store, (int)guest->id.rank, message.bytes, message.length, why);
    if (rc != HVD_OK)
        return rc;
    guest->arrived = true;
    hub->missing--;
    return HVD_OK;
}

/* One step with a guest after poll said [events]. */
static int step(struct hub *hub, struct guest *guest, short events, struct store *store,
                struct hvd_error *why)
{
    int rc = HVD_OK;
    if (guest->arrived && (events & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
        return error_set(why, HVD_ERR_RANK_LOST, "it ended before all ranks had joined");
    if (!guest->known && clock_us() > guest->give_up_us)
        return error_set(why, HVD_ERR_TIMEOUT, "it says nothing");
    if (guest->arrived || (events & (POLLIN | POLLOUT | POLLHUP | POLLERR)) == 0)
        return HVD_OK;
    if ((events & POLLOUT) != 0)
        rc = channel_flush(&guest->channel, why);
    if (rc >= 0 && !guest->greeted) {
        rc = channel_greet(&guest->channel, &guest->id, why);
        guest->greeted = rc == HVD_OK;
    }
    if (rc >= 0 && guest->greeted)
        rc = take_page(hub, guest, store, why);
    return rc;
}

/* Who has not proved itself is a stranger and dropped when something is wrong with it. What is wrong with a
 * rank ends the job. */
static int serve(struct hub *hub, int i, short events, struct store *store, struct hvd_error *err)
{
    struct guest *guest = &hub->guests[i];
    struct hvd_error why = {""};
    int rc = step(hub, guest, events, store, &why);
    if (rc >= 0)
        return HVD_OK;
    if (guest->known)
        return error_set(err, rc == HVD_ERR_SYSTEM ? HVD_ERR_RANK_LOST : rc, "rank %u at %s: %s",
                         guest->id.rank, guest->from, why.text);
    drop_guest(hub, i, why.text);
    return HVD_OK;
}

/* "1, 4, 5 and 12 more" */
static void name_missing(const struct hub *hub, char *text, size_t text_bytes)
{
    size_t used = 0;
    int named = 0;
    text[0] = 0;
    for (int rank = 1; rank < hub->job->size && named < 8; rank++) {
        bool here = false;
        for (int i = 0; i < hub->guest_count && !here; i++)
            here = hub->guests[i].arrived && hub->guests[i].id.rank == (uint32_t)rank;
        if (here)
            continue;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", named == 0 ? "" : ", ", rank);
        named++;
    }
    if (hub->missing > named)
        snprintf(text + used, text_bytes - used, " and %d more", hub->missing - named);
}

static int gather(struct hub *hub, struct store *store, int64_t deadline_us, struct hvd_error *err)
{
    char names[160];
    while (hub->missing > 0) {
        int64_t now_us = clock_us();
        int64_t wake_us = deadline_us;
        if (now_us >= deadline_us) {
            name_missing(hub, names, sizeof(names));
            return error_set(
                err, HVD_ERR_TIMEOUT,
                "%d of %d ranks did not join in time: rank %s; --hvd-start-timeout gives them longer",
                hub->missing, hub->job->size, names);
        }
        int count = hub->guest_count;
        for (int i = 0; i < count; i++) {
            struct guest *guest = &hub->guests[i];
            bool sending = guest->channel.out.length > 0;
            hub->pollers[i] = (struct pollfd){.fd = guest->channel.fd,
                                              .events = (short)(guest->arrived ? POLLRDHUP
                                                                : sending      ? POLLIN | POLLOUT
                                                                               : POLLIN)};
            if (!guest->known && guest->give_up_us < wake_us)
                wake_us = guest->give_up_us + 1;
        }
        bool room = count < guest_room(hub);
        hub->pollers[count] = (struct pollfd){.fd = room ? hub->listener : -1, .events = POLLIN};
        if (poll(hub->pollers, (nfds_t)count + 1, clock_ms_until(wake_us)) < 0 && errno != EINTR)
            return error_set_errno(err, "poll");
        /* downwards, as a dropped guest's place is taken by the last one */
        for (int i = count - 1; i >= 0; i--) {
            int rc = serve(hub, i, hub->pollers[i].revents, store, err);
            if (rc != HVD_OK)
                return rc;
        }
        accept_guests(hub);
    }
    return HVD_OK;
}

/* ---- Give ------------------------------------------------------------------------------------- */

/* Send the guest what its socket takes; HVD_OK when it has everything. */
static int give_pages(struct hub *hub, struct guest *guest, const struct store *store, struct hvd_error *why)
{
    for (;;) {
        int rc = channel_flush(&guest->channel, why);
        if (rc != HVD_OK || guest->given == hub->job->size)
            return rc;
        size_t length = 0;
        const unsigned char *pages = store_pages(store, guest->given, &length);
        size_t begin = hub->begins[guest->given];
        struct message message = {MESSAGE_PAGE, hub->fence, (uint32_t)guest->given,
                                  length > begin ? pages + begin : NULL, length - begin};
        rc = message_send(&guest->channel, &message, why);
        if (rc != HVD_OK)
            return rc;
        guest->given++;
    }
}

static int give(struct hub *hub, const struct store *store, int64_t deadline_us, struct hvd_error *err)
{
    for (;;) {
        int left = 0;
        for (int i = 0; i < hub->guest_count; i++) {
            struct guest *guest = &hub->guests[i];
            struct hvd_error why = {""};
            int rc = guest->known ? give_pages(hub, guest, store, &why) : HVD_OK;
            if (rc < 0)
                return error_set(err, HVD_ERR_RANK_LOST,
                                 "rank %u at %s ended before all ranks had joined: %s", guest->id.rank,
                                 guest->from, why.text);
            if (rc == HVD_IN_PROGRESS)
                hub->pollers[left++] = (struct pollfd){.fd = guest->channel.fd, .events = POLLOUT};
        }
        if (left == 0)
            return HVD_OK;
        if (clock_us() >= deadline_us)
            return error_set(err, HVD_ERR_TIMEOUT,
                             "%d ranks do not take what rank 0 sends; --hvd-start-timeout gives "
                             "them longer",
                             left);
        if (poll(hub->pollers, (nfds_t)left, clock_ms_until(deadline_us)) < 0 && errno != EINTR)
            return error_set_errno(err, "poll");
    }
}

/* Tell the ranks that are here why the job ends. They see the connection close in any case. */
static void tell_failure(struct hub *hub, int status, const char *sentence)
{
    struct message message = {MESSAGE_FAIL, (uint32_t)-status, 0, (const unsigned char *)sentence,
                              strlen(sentence)};
    for (int i = 0; i < hub->guest_count; i++) {
        if (hub->guests[i].known)
            message_send(&hub->guests[i].channel, &message, NULL);
    }
}

int hub_fence(struct hub *hub, struct store *store, int64_t deadline_us, struct hvd_error *err)
{
    struct hvd_error why = {""};
    size_t length = 0;
    int64_t early_us = (deadline_us - clock_us()) / 10;
    const void *page = store_page(store, &length);
    hub->fence++;
    hub->missing = hub->job->size - 1;
    for (int rank = 0; rank < hub->job->size; rank++)
        store_pages(store, rank, &hub->begins[rank]);
    for (int i = 0; i < hub->guest_count; i++) {
        hub->guests[i].arrived = false;
        hub->guests[i].given = 0;
    }
    int rc = store_merge(store, 0, page, length, &why);
    if (rc == HVD_OK)
        rc = gather(hub, store, deadline_us - (early_us < EARLY_US ? early_us : EARLY_US), &why);
    if (rc == HVD_OK)
        rc = give(hub, store, deadline_us, &why);
    if (rc != HVD_OK) {
        tell_failure(hub, rc, why.text);
        return error_set(err, rc, "%s", why.text);
    }
    store_forget_page(store);
    return HVD_OK;
}
