/* attach_leader.c: the leader's side of attach: it makes the memory, admits members and tells them who their
 * neighbours are. */
#include "config.h"
#include "node/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/drop_report.h"
#include "base/news.h"
#include "node/deputy.h"
#include "node/shared_file.h"

#define UNAUTHENTICATED_MAX 64 /* connections at once beyond those of members */

/* The leader's open descriptors until all members have attached: for each member its connection, its
 * doorbell and those that show its end; in addition its three files, the deputy's socket, and the
 * descriptors of one packet. */
#define FDS_OF_MEMBER (2 + ATTACH_END_FDS)
#define FDS_BESIDES   8

/* One connection. */
struct attach_peer {
    int fd;
    struct watched_process process; /* its rank is -1 until its claim was admitted */
    int doorbell;
    struct handshake handshake;
    enum attach_packet_type
        expects; /* 0: the handshake; ATTACH_NEIGHBOURS: it is attached and waits for those */
};

enum member_state { MEMBER_AWAITED, MEMBER_AUTHENTICATED, MEMBER_ATTACHED, MEMBER_GONE };

struct attach_leader {
    struct node *node;
    const struct peer_table *peer_table;
    int64_t deadline_us;
    int listener, memory_fd;
    int windows_fd;                 /* -1: there are none */
    int64_t accept_us;              /* no connection is accepted earlier */
    struct drop_report drop_report; /* of processes that are no ranks of this node */
    int peer_count, peer_limit;
    struct attach_peer *peers;
    struct pollfd *polls;         /* one for each peer, then the listener, then news */
    unsigned char *member_states; /* of each member: enum member_state */
    struct hvd_error refusal;     /* why there is no memory; empty: there is */
};

/* Drop a connection; [why] is a phrase that follows "it", or NULL. */
static void leader_drop(struct attach_leader *leader, struct attach_peer *peer, const char *why)
{
    bool authenticated = peer->process.rank >= 0;
    if (authenticated)
        leader->member_states[node_index_of(leader->node, peer->process.rank)] = MEMBER_GONE;
    if (why != NULL && authenticated)
        log_write(leader->peer_table->log, LOG_WARN, "control",
                  "rank %d (pid %d) does not share memory with this node: it %s", peer->process.rank,
                  (int)peer->process.pid, why);
    else if (why != NULL)
        drop_report_add(&leader->drop_report, clock_us(), leader->peer_table->log, "control",
                        "dropped process %d, which connected to the first rank of this node: it %s",
                        (int)peer->process.pid, why);
    close(peer->fd);
    attach_forget_process(&peer->process);
    descriptors_close(&peer->doorbell);
    peer->fd = peer->handshake.fd = peer->doorbell = -1;
    leader->accept_us = 0; /* there is room again */
}

/* Tell a member that waits for the next packet why none comes, and drop it. */
static void leader_refuse_peer(struct attach_leader *leader, struct attach_peer *peer,
                               const struct hvd_error *why)
{
    struct attach_packet packet = {0};
    snprintf(packet.refusal, sizeof(packet.refusal), "%.*s", (int)sizeof(packet.refusal) - 1, why->text);
    attach_send(peer->fd, ATTACH_REFUSAL, &packet, NULL); /* it may have left */
    leader_drop(leader, peer, NULL);
}

static bool leader_is_done(const struct attach_leader *leader)
{
    for (int i = 1; i < leader->node->member_count; i++) {
        if (leader->member_states[i] != MEMBER_ATTACHED && leader->member_states[i] != MEMBER_GONE)
            return false;
    }
    return true;
}

/* Without windows ranks still share memory. */
static void leader_make_windows(struct attach_leader *leader)
{
    struct hvd_error why;
    if (windows_create(&leader->node->windows, leader->node->member_count, &leader->windows_fd, &why) !=
        HVD_OK)
        log_write(leader->peer_table->log, LOG_INFO, "control",
                  "the ranks of this node do not reach each other's tensors: %s", why.text);
}

static int leader_listen(struct attach_leader *leader, struct hvd_error *err)
{
    struct sockaddr_un address;
    socklen_t length = attach_address(leader->peer_table, leader->node->rank, &address);
    leader->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (leader->listener < 0)
        return error_set_errno(err, "cannot make a socket for the ranks of this node");
    if (bind(leader->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(leader->listener, SOMAXCONN) != 0)
        return error_set_errno(err, "cannot listen for the ranks of this node on the abstract socket @%s",
                               address.sun_path + 1);
    return HVD_OK;
}

/* The oldest connection that has not proved itself, or NULL. */
static struct attach_peer *oldest_unproven(const struct attach_leader *leader)
{
    int oldest = handshake_oldest(&leader->peers->handshake, sizeof(*leader->peers), leader->peer_count);
    return oldest < 0 ? NULL : &leader->peers[oldest];
}

/* There is no room for another connection: the oldest one that has not proved itself gives way once it had
 * the time. Returns false where there is none. */
static bool leader_make_room(struct attach_leader *leader, const char *why)
{
    struct attach_peer *oldest = oldest_unproven(leader);
    if (oldest == NULL)
        return false;
    leader->accept_us = oldest->handshake.begun_us + HANDSHAKE_PROOF_US;
    if (clock_us() >= leader->accept_us)
        leader_drop(leader, oldest, why);
    return true;
}

/* A connection has come: see whose process it is, and begin the handshake. */
static int leader_accept(struct attach_leader *leader, struct hvd_error *err)
{
    if (leader->peer_count == leader->peer_limit) {
        leader_make_room(leader, "gave way to newer ones, as it said nothing");
        return HVD_OK;
    }
    int fd = accept4(leader->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = errno;
    if (fd < 0 && descriptors_are_used_up(error)) {
        if (leader_make_room(leader, "gave way, as no descriptor was left and it said nothing"))
            return HVD_OK;
        return descriptors_error(err, error, "cannot take the connection of a rank of this node",
                                 leader->node->member_count);
    }
    if (fd < 0 && (error == ENOMEM || error == ENOBUFS))
        return error_set_errno(err, "cannot take the connection of a rank of this node");
    if (fd < 0)
        return HVD_OK;
    struct attach_peer *peer = &leader->peers[leader->peer_count++];
    struct hvd_error why;
    *peer = (struct attach_peer){.fd = fd, .process = {.rank = -1, .fd = -1, .life_fd = -1}, .doorbell = -1};
    handshake_accept(&peer->handshake, leader->peer_table->key, fd);
    if (attach_identify_peer(fd, &peer->process, &why) != HVD_OK)
        leader_drop(leader, peer, why.text);
    return HVD_OK;
}

/* Why a process that holds the key is not one of the ranks that are waited for; NULL where it is. */
static const char *refusal_of(const struct attach_leader *leader, const struct handshake_claim *claim)
{
    const char *why = handshake_stray_reason(claim, leader->peer_table->epoch, leader->node->rank);
    int index = node_index_of(leader->node, (int)claim->from);
    if (why != NULL)
        return why;
    if (claim->purpose != HANDSHAKE_PURPOSE_ATTACH || index <= 0)
        return "says that it is a rank which does not belong here";
    return leader->member_states[index] == MEMBER_AWAITED ? NULL
                                                          : "says that it is a rank which was here before";
}

static void leader_on_handshake(struct attach_leader *leader, struct attach_peer *peer)
{
    struct handshake *handshake = &peer->handshake;
    enum handshake_result result = handshake_advance(handshake);
    if (result == HANDSHAKE_CLAIMED) {
        const char *why = refusal_of(leader, &handshake->claim);
        if (why != NULL) {
            leader_drop(leader, peer, why);
            return;
        }
        peer->process.rank = (int)handshake->claim.from;
        leader->member_states[node_index_of(leader->node, peer->process.rank)] = MEMBER_AUTHENTICATED;
        handshake_admit(handshake);
        result = handshake_advance(handshake);
    }
    if (result == HANDSHAKE_DONE) {
        handshake->fd = -1; /* it is peer->fd */
        peer->expects = ATTACH_DOORBELL;
    } else if (result == HANDSHAKE_FAILED) {
        leader_drop(leader, peer, handshake->why);
    }
}

static void leader_on_doorbell(struct attach_leader *leader, struct attach_peer *peer, struct attach_fds *fds)
{
    if (fds->count != 2) {
        leader_drop(leader, peer, "sent no doorbell, or no life pipe");
        return;
    }
    struct hvd_error why;
    peer->doorbell = fds->fd[0];
    int status = attach_take_life(&peer->process, fds->fd[1], &why);
    fds->count = 0;
    if (status != HVD_OK) {
        leader_drop(leader, peer, why.text);
        return;
    }
    peer->expects = ATTACH_MAPPED;
    struct attach_packet memory = {
        .memory = {.left_us = leader->deadline_us - clock_us(), .member_count = leader->node->member_count}};
    const struct node *node = leader->node;
    const struct attach_fds files = {
        leader->windows_fd >= 0 ? 4 : 3,
        {leader->memory_fd, node->peers_fd, node->life_read_fd, leader->windows_fd}};
    if (attach_send(peer->fd, ATTACH_MEMORY, &memory, &files) != 0)
        leader_drop(leader, peer, "left");
}

/* No descriptors are left for the doorbell of a member. */
static int leader_on_shortage(struct attach_leader *leader, struct attach_peer *peer, struct hvd_error *err)
{
    int status = descriptors_check(FDS_OF_MEMBER, "cannot take the doorbell of a rank of this node", err);
    if (status == HVD_OK) /* some are left again */
        status = error_set(err, HVD_ERR_NO_MEMORY,
                           "cannot take the doorbell of a rank of this node: raise `ulimit -n`");
    leader_refuse_peer(leader, peer, err);
    return status;
}

/* A member has sent a packet, or left. */
static int leader_on_packet(struct attach_leader *leader, struct attach_peer *peer, struct hvd_error *err)
{
    struct attach_packet packet;
    struct attach_fds fds;
    struct hvd_error why;
    bool refuses = leader->refusal.text[0] != 0;
    int status = attach_receive(peer->fd, peer->expects, &packet, &fds, &why);
    if (status == HVD_IN_PROGRESS)
        return HVD_OK;
    if (refuses && (status == HVD_OK || status == HVD_ERR_NO_MEMORY)) {
        leader_refuse_peer(leader, peer, &leader->refusal);
        attach_close_fds(&fds);
        return HVD_OK;
    }
    if (status == HVD_ERR_NO_MEMORY)
        return leader_on_shortage(leader, peer, err);
    if (status != HVD_OK) {
        leader_drop(leader, peer, why.text);
        return HVD_OK;
    }
    switch (peer->expects) {
    case ATTACH_DOORBELL:
        leader_on_doorbell(leader, peer, &fds);
        break;
    case ATTACH_MAPPED:
        leader->member_states[node_index_of(leader->node, peer->process.rank)] = MEMBER_ATTACHED;
        peer->expects = ATTACH_NEIGHBOURS;
        break;
    default:
        leader_drop(leader, peer, "sent a packet that it should not send now");
        break;
    }
    attach_close_fds(&fds);
    return HVD_OK;
}

/* poll has reported a connection. */
static int leader_serve_peer(struct attach_leader *leader, struct attach_peer *peer, struct hvd_error *err)
{
    if (peer->expects != 0)
        return leader_on_packet(leader, peer, err);
    leader_on_handshake(leader, peer);
    return HVD_OK;
}

/* Drop connections that did not finish the handshake in time, and close the gaps in the array. Returns the
 * next deadline. */
static int64_t leader_expire(struct attach_leader *leader)
{
    int kept = 0;
    int64_t now_us = clock_us();
    int64_t next_us = leader->deadline_us;
    for (int i = 0; i < leader->peer_count; i++) {
        struct attach_peer *peer = &leader->peers[i];
        bool unauthenticated = peer->expects == 0;
        if (peer->fd >= 0 && unauthenticated && peer->handshake.deadline_us <= now_us)
            leader_drop(leader, peer, "did not prove in time that it holds the key of this job");
        if (peer->fd < 0)
            continue;
        if (unauthenticated && peer->handshake.deadline_us < next_us)
            next_us = peer->handshake.deadline_us;
        leader->peers[kept++] = *peer;
    }
    leader->peer_count = kept;
    return next_us;
}

/* Can a connection be taken, or take another one's place? */
static bool leader_has_room(const struct attach_leader *leader)
{
    return leader->peer_count < leader->peer_limit || oldest_unproven(leader) != NULL;
}

/* Until every member is attached or has given up, or the deadline. */
static int leader_serve(struct attach_leader *leader, struct hvd_error *err)
{
    int status = HVD_OK;
    while (status == HVD_OK && !leader_is_done(leader) && clock_us() < leader->deadline_us) {
        int64_t next_us = leader_expire(leader);
        int count = leader->peer_count;
        for (int i = 0; i < count; i++) {
            const struct attach_peer *peer = &leader->peers[i];
            short events = peer->expects == 0 ? handshake_poll_events(&peer->handshake) : POLLIN;
            leader->polls[i] = (struct pollfd){.fd = peer->fd, .events = events};
        }
        /* The clock is asked once: the time must not come between two answers. */
        bool early = clock_us() < leader->accept_us;
        bool accepts = !early && leader_has_room(leader);
        if (early && leader->accept_us < next_us)
            next_us = leader->accept_us;
        leader->polls[count] = (struct pollfd){.fd = accepts ? leader->listener : -1, .events = POLLIN};
        leader->polls[count + 1] = news_poller(leader->peer_table->news);
        int ready = poll(leader->polls, (nfds_t)count + 2, clock_ms_until(next_us));
        if (ready < 0 && errno != EINTR)
            return error_set_errno(err, "cannot wait for the ranks of this node (poll)");
        if (ready <= 0)
            continue;
        for (int i = 0; i < count && status == HVD_OK; i++) {
            if (leader->polls[i].revents != 0)
                status = leader_serve_peer(leader, &leader->peers[i], err);
        }
        if (status == HVD_OK && leader->polls[count + 1].revents != 0)
            return news_error(err);
        if (status == HVD_OK && leader->polls[count].revents != 0)
            status = leader_accept(leader, err);
    }
    leader_expire(leader);
    return status;
}

static int compare_peers(const void *a, const void *b)
{
    return ((const struct attach_peer *)a)->process.rank - ((const struct attach_peer *)b)->process.rank;
}

/* How to watch a rank; what shows its end goes to [fds]. */
static struct attach_neighbour neighbour_of(const struct attach_peer *peer, struct attach_fds *fds)
{
    const struct watched_process *process = &peer->process;
    fds->fd[fds->count++] = process->fd;
    fds->fd[fds->count++] = process->life_fd >= 0 ? process->life_fd : process->fd; /* without /proc */
    return (struct attach_neighbour){.rank = process->rank, .pid = process->pid, .start = process->start};
}

/* Other nodes are told by the deputy if this leader dies. Without one they see it by their connections. */
static void leader_name_deputy(struct attach_leader *leader, struct attach_packet *packet,
                               struct attach_fds *fds, int ends[2])
{
    bool alone = leader->node->member_count == leader->peer_table->size;
    if (alone || deputy_open(ends) != HVD_OK)
        return;
    leader->node->deputy_fd = ends[0];
    packet->neighbours.is_deputy = 1;
    fds->fd[fds->count++] = ends[1];
}

/* Tell attached member [index] of [count], the leader being 0 and member i peers[i - 1], who its neighbours
 * are. */
static void leader_send_neighbours(struct attach_leader *leader, int index, int count)
{
    struct attach_peer *peer = &leader->peers[index - 1];
    int parent = tree_shape_parent(index, TREE_NODE_RADIX);
    int ends[2] = {-1, -1};
    struct attach_packet packet = {0};
    struct attach_fds fds = {.count = 1, .fd = {leader->node->doorbell}};
    packet.neighbours.parent.rank = leader->node->rank;
    packet.neighbours.next.rank = -1;
    if (parent > 0) {
        fds.fd[0] = leader->peers[parent - 1].doorbell;
        packet.neighbours.parent = neighbour_of(&leader->peers[parent - 1], &fds);
    }
    int64_t end = tree_shape_end_of_children(index, TREE_NODE_RADIX);
    for (int64_t i = tree_shape_first_child(index, TREE_NODE_RADIX); i < end && i < count; i++) {
        fds.fd[fds.count++] = leader->peers[i - 1].doorbell;
        packet.neighbours.children[packet.neighbours.child_count++] =
            neighbour_of(&leader->peers[i - 1], &fds);
    }
    if (parent > 0)
        fds.fd[fds.count++] = leader->node->doorbell;
    if (index + 1 < count)
        packet.neighbours.next = neighbour_of(&leader->peers[index], &fds);
    if (index == 1)
        leader_name_deputy(leader, &packet, &fds, ends);
    if (attach_send(peer->fd, ATTACH_NEIGHBOURS, &packet, &fds) != 0)
        log_write(leader->peer_table->log, LOG_WARN, "control",
                  "rank %d (pid %d) ended while the ranks of this node attached", peer->process.rank,
                  (int)peer->process.pid);
    descriptors_close(&ends[1]);
}

/* What the leader keeps: who attached, and its children's doorbells and what shows their ends. Other ranks
 * are watched by their parents, and by the ranks before them in case a parent stands still; so the leader's
 * descriptors do not grow with the node. */
static int leader_keep_fds(struct attach_leader *leader, struct hvd_error *err)
{
    struct node *node = leader->node;
    node->attached = malloc((size_t)node->member_count * sizeof(*node->attached));
    if (node->attached == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for a node of %d ranks", node->member_count);
    for (int i = 0; i < leader->peer_count; i++) {
        struct attach_peer *peer = &leader->peers[i];
        node->attached[node->attached_count++] = peer->process.rank;
        if (tree_shape_parent(i + 1, TREE_NODE_RADIX) != 0)
            continue;
        node->doorbells[node->doorbell_count].rank = peer->process.rank;
        node->doorbells[node->doorbell_count++].fd = peer->doorbell;
        peer->doorbell = -1;
        int status = node_watch(node, &peer->process, err);
        if (status != HVD_OK)
            return status;
    }
    return HVD_OK;
}

/* The time is over, or all members attached: drop the others, and tell each attached one its neighbours. */
static int leader_finish(struct attach_leader *leader, struct hvd_error *err)
{
    for (int i = 0; i < leader->peer_count; i++) {
        if (leader->peers[i].expects != ATTACH_NEIGHBOURS)
            leader_drop(leader, &leader->peers[i], "did not come in time");
    }
    leader_expire(leader);
    qsort(leader->peers, (size_t)leader->peer_count, sizeof(*leader->peers), compare_peers);
    for (int i = 1; i <= leader->peer_count; i++)
        leader_send_neighbours(leader, i, leader->peer_count + 1);
    return leader_keep_fds(leader, err);
}

/* Make what the members get. */
static int leader_make_files(struct attach_leader *leader, struct hvd_error *err)
{
    struct node *node = leader->node;
    int status = node_memory_create(node->member_count, leader->peer_table->epoch, &node->memory,
                                    &leader->memory_fd, err);
    if (status == HVD_OK)
        status = shared_file_create_empty("hvd-peers", &node->peers_fd, err);
    if (status != HVD_OK)
        return status;
    int32_t *ranks = node_memory_ranks(node->memory, node->member_count);
    for (int i = 0; i < node->member_count; i++)
        ranks[i] = node->members[i];
    if (node->member_count > 1)
        leader_make_windows(leader);
    return HVD_OK;
}

static void leader_close_files(struct attach_leader *leader)
{
    descriptors_close(&leader->memory_fd);
    descriptors_close(&leader->windows_fd);
    leader->memory_fd = leader->windows_fd = -1;
}

/* Tell the members that there is no memory, and why. Those that have attached wait for a packet and are told
 * now; others once they have sent the packet that is expected of them, since what is unread when a socket
 * closes takes along what was sent. One other connects at a time, as descriptors may be what is short. */
static void leader_refuse(struct attach_leader *leader, const struct hvd_error *why)
{
    struct hvd_error cannot;
    leader->refusal = *why;
    for (int i = 0; i < leader->peer_count; i++) {
        struct attach_peer *peer = &leader->peers[i];
        if (peer->expects == ATTACH_NEIGHBOURS)
            leader_refuse_peer(leader, peer, why);
        else if (peer->process.rank < 0)
            leader_drop(leader, peer, NULL); /* it tries again */
    }
    leader_close_files(leader);
    leader_expire(leader);
    leader->peer_limit = leader->peer_count + 1;
    leader_serve(leader, &cannot); /* a member that does not get the message sees the leader end */
}

/* Listen first, so that members learn at once if there is no memory. */
static int leader_run(struct attach_leader *leader, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int more = FDS_BESIDES + FDS_OF_MEMBER * (leader->node->member_count - 1);
    int status = leader->node->member_count > 1 ? leader_listen(leader, err) : HVD_OK;
    if (status != HVD_OK)
        return status;
    status = descriptors_check(more, "cannot share memory with the ranks of this node", &why);
    if (status == HVD_OK)
        status = leader_make_files(leader, &why);
    if (status == HVD_OK)
        status = leader_serve(leader, &why);
    if (status == HVD_OK)
        return leader_finish(leader, err);
    leader_refuse(leader, &why);
    return error_set(err, status, "%s", why.text);
}

int attach_as_leader(struct node *node, const struct peer_table *peer_table, const int *members,
                     int member_count, int64_t deadline_us, struct hvd_error *err)
{
    struct attach_leader leader = {.node = node, .peer_table = peer_table, .deadline_us = deadline_us};
    leader.listener = leader.memory_fd = leader.windows_fd = -1;
    leader.peer_limit = member_count + UNAUTHENTICATED_MAX;
    leader.peers = calloc((size_t)leader.peer_limit, sizeof(*leader.peers));
    leader.polls = calloc((size_t)leader.peer_limit + 2, sizeof(*leader.polls));
    leader.member_states = calloc((size_t)member_count, 1);
    node->members = malloc((size_t)member_count * sizeof(*members));
    int status = HVD_OK;
    if (leader.peers == NULL || leader.polls == NULL || leader.member_states == NULL || node->members == NULL)
        status = error_set(err, HVD_ERR_NO_MEMORY, "out of memory for a node of %d ranks", member_count);
    if (status == HVD_OK) {
        memcpy(node->members, members, (size_t)member_count * sizeof(*members));
        node->member_count = member_count;
        status = leader_run(&leader, err);
    }
    for (int i = 0; i < leader.peer_count; i++)
        leader_drop(&leader, &leader.peers[i], NULL);
    drop_report_tell(&leader.drop_report, INT64_MAX, peer_table->log, "control");
    descriptors_close(&leader.listener);
    leader_close_files(&leader);
    free(leader.peers);
    free(leader.polls);
    free(leader.member_states);
    return status;
}
