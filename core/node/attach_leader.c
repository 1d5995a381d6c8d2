/* attach_leader.c: the leader's side of the meeting: it makes the memory and tells members of each other. */
#include "config.h"
#include "node/attach.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define STRANGERS_MAX 16               /* connections at once beyond those of members */
#define PATIENCE_US   INT64_C(5000000) /* for a connection to prove itself */

/* One connection. */
struct guest {
    int fd;
    pid_t pid;
    int pidfd; /* -errno: it cannot be watched */
    int bell;
    int rank;               /* as it says */
    enum meet_step expects; /* MEET_BELLS: it is attached and waits for those */
    int64_t patience_us;    /* when it is dropped; only before it has proved itself */
    unsigned char member_nonce[MEET_NONCE_BYTES];
    unsigned char leader_nonce[MEET_NONCE_BYTES];
};

enum standing { AWAITED, PROVEN, ATTACHED, GONE };

struct host {
    struct node *node;
    const struct roster *roster;
    int64_t deadline_us;
    int listener, memory_fd;
    int windows_fd; /* -1: there are none */
    int guest_count, guest_limit;
    struct guest *guests;
    struct pollfd *polls;     /* one for each guest, then the listener */
    unsigned char *standings; /* of each member: enum standing */
};

static int member_index(const struct node *node, int rank)
{
    for (int i = 0; i < node->member_count; i++) {
        if (node->members[i] == rank)
            return i;
    }
    return -1;
}

/* Let a connection go; [why] is a phrase that follows "it", or NULL. */
static void host_drop(struct host *host, struct guest *guest, const char *why)
{
    bool proven = guest->expects > MEET_ANSWER;
    if (proven)
        host->standings[member_index(host->node, guest->rank)] = GONE;
    if (why != NULL && proven)
        log_write(host->roster->log, LOG_WARN, "control",
                  "rank %d (pid %d) does not share memory with this node: it %s", guest->rank,
                  (int)guest->pid, why);
    else if (why != NULL)
        log_write(host->roster->log, LOG_WARN, "control",
                  "dropped process %d, which came to this node's meeting: it %s", (int)guest->pid, why);
    close(guest->fd);
    if (guest->pidfd >= 0)
        close(guest->pidfd);
    if (guest->bell >= 0)
        close(guest->bell);
    guest->fd = guest->pidfd = guest->bell = -1;
}

static bool host_settled(const struct host *host)
{
    for (int i = 1; i < host->node->member_count; i++) {
        if (host->standings[i] != ATTACHED && host->standings[i] != GONE)
            return false;
    }
    return true;
}

/* Without windows ranks still share memory. */
static void host_make_windows(struct host *host)
{
    struct hvd_error why;
    if (windows_create(&host->node->windows, host->node->member_count, &host->windows_fd, &why) != HVD_OK)
        log_write(host->roster->log, LOG_INFO, "control",
                  "the ranks of this node do not reach each other's tensors: %s", why.text);
}

static int host_listen(struct host *host, struct hvd_error *err)
{
    struct sockaddr_un address;
    socklen_t length = meet_address(host->roster, host->node->rank, &address);
    host->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (host->listener < 0)
        return error_set_errno(err, "cannot make a socket for the ranks of this node");
    if (bind(host->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(host->listener, SOMAXCONN) != 0)
        return error_set_errno(err, "cannot listen for the ranks of this node on the abstract socket @%s",
                               address.sun_path + 1);
    return HVD_OK;
}

/* A connection has come: see who it is, and wait for its HELLO. */
static int host_accept(struct host *host, struct hvd_error *err)
{
    int fd = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        return error_set_errno(err, "cannot take the connection of a rank of this node; see `ulimit -n`");
    if (fd < 0)
        return HVD_OK;
    struct guest *guest = &host->guests[host->guest_count++];
    struct hvd_error why;
    *guest = (struct guest){.fd = fd, .pidfd = -1, .bell = -1, .rank = -1, .expects = MEET_HELLO};
    guest->patience_us = clock_us() + PATIENCE_US;
    if (meet_peer(fd, &guest->pid, &guest->pidfd, &why) != HVD_OK)
        host_drop(host, guest, why.text);
    return HVD_OK;
}

static void guest_hello(struct host *host, struct guest *guest, const struct meet_packet *packet)
{
    int index = member_index(host->node, packet->rank);
    if (index <= 0) {
        host_drop(host, guest, "says that it is a rank which does not belong here");
        return;
    }
    struct meet_packet proof = {.rank = packet->rank};
    guest->rank = packet->rank;
    memcpy(guest->member_nonce, packet->nonce, sizeof(guest->member_nonce));
    randombytes_buf(guest->leader_nonce, sizeof(guest->leader_nonce));
    memcpy(proof.proof.nonce, guest->leader_nonce, sizeof(guest->leader_nonce));
    meet_hash(host->roster, MEET_PROOF, host->node->rank, guest->rank,
              &(struct meet_nonces){guest->member_nonce, guest->leader_nonce}, proof.proof.hash);
    guest->expects = MEET_ANSWER;
    if (meet_send(guest->fd, MEET_PROOF, &proof, NULL) != 0)
        host_drop(host, guest, "left before it proved itself");
}

static void guest_answer(struct host *host, struct guest *guest, const struct meet_packet *packet,
                         struct meet_fds *fds)
{
    unsigned char hash[MEET_HASH_BYTES];
    struct hvd_error why;
    unsigned char *standing = &host->standings[member_index(host->node, guest->rank)];
    meet_hash(host->roster, MEET_ANSWER, host->node->rank, guest->rank,
              &(struct meet_nonces){guest->member_nonce, guest->leader_nonce}, hash);
    if (sodium_memcmp(hash, packet->answer.hash, sizeof(hash)) != 0 || packet->rank != guest->rank) {
        host_drop(host, guest, "does not hold this job's key");
        return;
    }
    if (*standing != AWAITED) {
        host_drop(host, guest, "says that it is a rank which was here before");
        return;
    }
    *standing = PROVEN;
    guest->expects = MEET_ATTACHED;
    if (guest->pidfd < 0) {
        error_set(&why, HVD_ERR_SYSTEM, "cannot be watched: pidfd_open: %s", strerror(-guest->pidfd));
        host_drop(host, guest, why.text);
        return;
    }
    if (packet->answer.watches != 1) {
        host_drop(host, guest, "cannot watch this process: is it in a PID namespace of its own?");
        return;
    }
    if (fds->count != 1) {
        host_drop(host, guest, "sent no doorbell");
        return;
    }
    guest->bell = fds->fd[0];
    fds->count = 0;
    struct meet_packet memory = {.rank = guest->rank, .left_us = host->deadline_us - clock_us()};
    struct meet_fds files = {host->windows_fd >= 0 ? 2 : 1, {host->memory_fd, host->windows_fd}};
    if (meet_send(guest->fd, MEET_MEMORY, &memory, &files) != 0)
        host_drop(host, guest, "left");
}

/* A connection has something to say. */
static void guest_speaks(struct host *host, struct guest *guest)
{
    struct meet_packet packet;
    struct meet_fds fds;
    struct hvd_error why;
    int status = meet_receive(guest->fd, guest->expects, &packet, &fds, &why);
    if (status == HVD_IN_PROGRESS)
        return;
    if (status != HVD_OK) {
        host_drop(host, guest, why.text);
        return;
    }
    switch (guest->expects) {
    case MEET_HELLO:
        guest_hello(host, guest, &packet);
        break;
    case MEET_ANSWER:
        guest_answer(host, guest, &packet, &fds);
        break;
    case MEET_ATTACHED:
        host->standings[member_index(host->node, guest->rank)] = ATTACHED;
        guest->expects = MEET_BELLS;
        break;
    default:
        host_drop(host, guest, "spoke out of turn");
        break;
    }
    meet_close_fds(&fds);
}

/* Drop who keeps us waiting without a proof, and close the gaps. Returns when to look again. */
static int64_t host_tidy(struct host *host)
{
    int kept = 0;
    int64_t now_us = clock_us();
    int64_t next_us = host->deadline_us;
    for (int i = 0; i < host->guest_count; i++) {
        struct guest *guest = &host->guests[i];
        bool unproven = guest->expects <= MEET_ANSWER;
        if (guest->fd >= 0 && unproven && guest->patience_us <= now_us)
            host_drop(host, guest, "did not prove in time that it holds this job's key");
        if (guest->fd < 0)
            continue;
        if (unproven && guest->patience_us < next_us)
            next_us = guest->patience_us;
        host->guests[kept++] = *guest;
    }
    host->guest_count = kept;
    return next_us;
}

/* Until every member is attached or has given up, or the deadline. */
static int host_collect(struct host *host, struct hvd_error *err)
{
    int status = HVD_OK;
    while (status == HVD_OK && !host_settled(host) && clock_us() < host->deadline_us) {
        int64_t next_us = host_tidy(host);
        int count = host->guest_count;
        for (int i = 0; i < count; i++)
            host->polls[i] = (struct pollfd){.fd = host->guests[i].fd, .events = POLLIN};
        host->polls[count] =
            (struct pollfd){.fd = count < host->guest_limit ? host->listener : -1, .events = POLLIN};
        int ready = poll(host->polls, (nfds_t)count + 1, clock_ms_until(next_us));
        if (ready < 0 && errno != EINTR)
            return error_set_errno(err, "cannot wait for the ranks of this node (poll)");
        if (ready <= 0)
            continue;
        for (int i = 0; i < count; i++) {
            if (host->polls[i].revents != 0)
                guest_speaks(host, &host->guests[i]);
        }
        if (host->polls[count].revents != 0)
            status = host_accept(host, err);
    }
    host_tidy(host);
    return status;
}

static int guest_order(const void *a, const void *b)
{
    return ((const struct guest *)a)->rank - ((const struct guest *)b)->rank;
}

/* Tell attached member [index] of [count], the leader being 0 and member i guests[i - 1], who its relatives
 * are. */
static void host_tell(struct host *host, int index, int count)
{
    struct guest *guest = &host->guests[index - 1];
    int parent = shape_parent(index, SHAPE_NODE_RADIX);
    struct meet_packet packet = {.rank = guest->rank};
    struct meet_fds fds = {.count = 1, .fd = {host->node->bell}};
    packet.bells.parent = host->node->rank;
    if (parent > 0) {
        packet.bells.parent = host->guests[parent - 1].rank;
        fds = (struct meet_fds){.count = 2,
                                .fd = {host->guests[parent - 1].bell, host->guests[parent - 1].pidfd}};
    }
    int64_t end = shape_end_of_children(index, SHAPE_NODE_RADIX);
    for (int64_t i = shape_first_child(index, SHAPE_NODE_RADIX); i < end && i < count; i++) {
        packet.bells.children[packet.bells.child_count++] = host->guests[i - 1].rank;
        fds.fd[fds.count++] = host->guests[i - 1].bell;
    }
    if (meet_send(guest->fd, MEET_BELLS, &packet, &fds) != 0)
        log_write(host->roster->log, LOG_WARN, "control",
                  "rank %d (pid %d) left the meeting of this node's ranks early", guest->rank,
                  (int)guest->pid);
}

/* What the leader keeps: its children's doorbells and everybody's pidfd. */
static int host_keep(struct host *host, struct hvd_error *err)
{
    struct node *node = host->node;
    for (int i = 0; i < host->guest_count; i++) {
        struct guest *guest = &host->guests[i];
        if (shape_parent(i + 1, SHAPE_NODE_RADIX) == 0) {
            node->bells[node->bell_count].rank = guest->rank;
            node->bells[node->bell_count++].fd = guest->bell;
            guest->bell = -1;
        }
        int status = node_watch(node, guest->rank, guest->pidfd, err);
        guest->pidfd = -1;
        if (status != HVD_OK)
            return status;
    }
    return HVD_OK;
}

/* Who came is now known: drop the rest, and tell those who did. */
static int host_conclude(struct host *host, struct hvd_error *err)
{
    for (int i = 0; i < host->guest_count; i++) {
        if (host->guests[i].expects != MEET_BELLS)
            host_drop(host, &host->guests[i], "did not come in time");
    }
    host_tidy(host);
    qsort(host->guests, (size_t)host->guest_count, sizeof(*host->guests), guest_order);
    for (int i = 1; i <= host->guest_count; i++)
        host_tell(host, i, host->guest_count + 1);
    return host_keep(host, err);
}

int meet_as_leader(struct node *node, const struct roster *roster, int64_t deadline_us, struct hvd_error *err)
{
    struct host host = {.node = node, .roster = roster, .deadline_us = deadline_us};
    host.listener = host.memory_fd = host.windows_fd = -1;
    host.guest_limit = node->member_count + STRANGERS_MAX;
    host.guests = calloc((size_t)host.guest_limit, sizeof(*host.guests));
    host.polls = calloc((size_t)host.guest_limit + 1, sizeof(*host.polls));
    host.standings = calloc((size_t)node->member_count, 1);
    int status = HVD_OK;
    if (host.guests == NULL || host.polls == NULL || host.standings == NULL)
        status =
            error_set(err, HVD_ERR_NO_MEMORY, "out of memory for a node of %d ranks", node->member_count);
    if (status == HVD_OK)
        status = memory_create(node->member_count, roster->epoch, &node->memory, &host.memory_fd, err);
    if (status == HVD_OK && node->member_count > 1) {
        host_make_windows(&host);
        status = host_listen(&host, err);
    }
    if (status == HVD_OK)
        status = host_collect(&host, err);
    if (status == HVD_OK)
        status = host_conclude(&host, err);
    for (int i = 0; i < host.guest_count; i++)
        host_drop(&host, &host.guests[i], NULL);
    if (host.listener >= 0)
        close(host.listener);
    if (host.memory_fd >= 0)
        close(host.memory_fd);
    if (host.windows_fd >= 0)
        close(host.windows_fd);
    free(host.guests);
    free(host.polls);
    free(host.standings);
    return status;
}
