/* attach_member.c: a member's side of attach: it connects to the leader, checks it and maps its memory. */
#include "config.h"
#include "node/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/news.h"
#include "base/process_stat.h"

#define PAUSE_MAX_MS 50               /* between attempts while the leader does not listen yet */
#define GRACE_US     INT64_C(1000000) /* for the leader's last packet, after the leader has stopped waiting */
#define LEFT_MAX_US  INT64_C(3600000000) /* longest that a leader may make a member wait */

struct attach_member {
    struct node *node;
    const struct peer_table *peer_table;
    int leader;
    int fd;
    struct watched_process process; /* the leader's */
    bool
        authenticated; /* the leader has admitted this rank, which it does once: there is no second attempt */
};

/* Wait for the leader. Failures are phrases that follow "it". */
static int member_poll(const struct attach_member *member, short events, int64_t deadline_us,
                       struct hvd_error *err)
{
    struct pollfd waits[] = {{.fd = member->fd, .events = events}, news_poller(member->peer_table->news)};
    int ready = poll(waits, 2, clock_ms_until(deadline_us));
    if (ready < 0 && errno != EINTR)
        return error_set_errno(err, "cannot be waited for (poll)");
    if (ready > 0 && waits[0].revents == 0)
        return news_error(err);
    if (ready == 0)
        return error_set(err, HVD_ERR_TIMEOUT, "did not answer in time");
    return HVD_OK;
}

/* Wait for one packet. Failures likewise. */
static int member_receive(const struct attach_member *member, enum attach_packet_type type,
                          struct attach_packet *packet, struct attach_fds *fds, int64_t deadline_us,
                          struct hvd_error *err)
{
    int status = attach_receive(member->fd, type, packet, fds, err);
    while (status == HVD_IN_PROGRESS) {
        status = member_poll(member, POLLIN, deadline_us, err);
        if (status == HVD_OK)
            status = attach_receive(member->fd, type, packet, fds, err);
    }
    return status;
}

static int member_send(const struct attach_member *member, enum attach_packet_type type,
                       struct attach_packet *packet, const struct attach_fds *fds, struct hvd_error *err)
{
    if (attach_send(member->fd, type, packet, fds) != 0)
        return error_set_errno(err, "cannot be reached");
    return HVD_OK;
}

static int member_connect(struct attach_member *member, struct hvd_error *err)
{
    struct sockaddr_un address;
    socklen_t length = attach_address(member->peer_table, member->leader, &address);
    member->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (member->fd < 0)
        return error_set_errno(err, "cannot be called (socket)");
    if (connect(member->fd, (struct sockaddr *)&address, length) != 0)
        return error_set_errno(err, "is not there");
    return attach_identify_peer(member->fd, &member->process, err);
}

/* Both ends prove that they hold the key. */
static int member_authenticate(struct attach_member *member, int64_t deadline_us, struct hvd_error *err)
{
    const struct peer_table *peer_table = member->peer_table;
    const struct handshake_claim claim = {.purpose = HANDSHAKE_PURPOSE_ATTACH,
                                          .epoch = peer_table->epoch,
                                          .from = (uint32_t)member->node->rank,
                                          .to = (uint32_t)member->leader};
    struct handshake handshake;
    handshake_connect(&handshake, peer_table->key, &claim, member->fd);
    enum handshake_result result = handshake_advance(&handshake);
    while (result == HANDSHAKE_WAITS) {
        int status = member_poll(member, handshake_poll_events(&handshake), deadline_us, err);
        if (status != HVD_OK)
            return status;
        result = handshake_advance(&handshake);
    }
    if (result != HANDSHAKE_DONE)
        return error_set(err, HVD_ERR_SYSTEM, "%s", handshake.why);
    member->authenticated = true;
    return HVD_OK;
}

/* The leader gets our doorbell and life pipe. */
static int member_send_doorbell(struct attach_member *member, struct hvd_error *err)
{
    struct attach_packet doorbell = {0};
    const struct node *node = member->node;
    const struct attach_fds fds = {.count = 2, .fd = {node->doorbell, node->life_read_fd}};
    return member_send(member, ATTACH_DOORBELL, &doorbell, &fds, err);
}

/* Without windows this rank still shares memory with the others. */
static void member_map_windows(struct attach_member *member, int fd)
{
    struct node *node = member->node;
    struct hvd_error why;
    if (windows_attach(&node->windows, fd, node->member_count, node_index_of(node, node->rank), &why) !=
        HVD_OK)
        log_write(member->peer_table->log, LOG_INFO, "control",
                  "rank %d and the other ranks of its node do not reach each other's tensors: %s", node->rank,
                  why.text);
}

/* Copy the list of members that the leader wrote into the memory, and check the copy. */
static int member_learn_members(struct attach_member *member, struct hvd_error *err)
{
    struct node *node = member->node;
    int count = node->member_count;
    node->members = malloc((size_t)count * sizeof(*node->members));
    if (node->members == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "leads %d ranks, too many for this process's memory", count);
    memcpy(node->members, node_memory_ranks(node->memory, count), (size_t)count * sizeof(*node->members));
    if (!attach_members_are_valid(member->peer_table, node->members, count) ||
        node->members[0] != member->leader)
        return error_set(err, HVD_ERR_SYSTEM, "listed ranks of this node that cannot be");
    return HVD_OK;
}

/* Map the memory of [packet], and learn who else is on the node. */
static int member_map_memory(struct attach_member *member, const struct attach_packet *packet,
                             struct attach_fds *fds, struct hvd_error *err)
{
    struct node *node = member->node;
    int count = packet->memory.member_count;
    if (fds->count < 3 || fds->count > 4)
        return error_set(
            err, HVD_ERR_SYSTEM,
            "sent %d descriptors, expected 3 or 4: the memory, the file of peers, its life pipe, "
            "the windows",
            fds->count);
    if (count < 2 || count > member->peer_table->size)
        return error_set(err, HVD_ERR_SYSTEM, "leads %d ranks of a job of %d", count,
                         member->peer_table->size);
    int status = node_memory_attach(fds->fd[0], count, member->peer_table->epoch, &node->memory, err);
    if (status != HVD_OK)
        return status;
    node->member_count = count;
    node->peers_fd = fds->fd[1];
    status = attach_take_life(&member->process, fds->fd[2], err);
    fds->fd[1] = fds->fd[2] = -1;
    if (status == HVD_OK)
        status = member_learn_members(member, err);
    if (status == HVD_OK && fds->count == 4)
        member_map_windows(member, fds->fd[3]);
    return status;
}

/* Map the leader's memory, and its windows where it has any. *untilp: when its last packet is due. */
static int member_map(struct attach_member *member, int64_t deadline_us, int64_t *untilp,
                      struct hvd_error *err)
{
    struct attach_packet packet, attached = {0};
    struct attach_fds fds;
    int status = member_receive(member, ATTACH_MEMORY, &packet, &fds, deadline_us + GRACE_US, err);
    if (status != HVD_OK)
        return status;
    status = member_map_memory(member, &packet, &fds, err);
    attach_close_fds(&fds);
    if (status != HVD_OK)
        return status;
    int64_t left_us = packet.memory.left_us > LEFT_MAX_US ? LEFT_MAX_US : packet.memory.left_us;
    int64_t until_us = left_us > 0 ? clock_us() + left_us : 0;
    *untilp = (until_us > deadline_us ? until_us : deadline_us) + GRACE_US;
    return member_send(member, ATTACH_MAPPED, &attached, NULL, err);
}

/* Are the neighbours in [packet] members, and is there a descriptor for each? */
static bool neighbours_are_valid(const struct node *node, const struct attach_packet *packet,
                                 const struct attach_fds *fds)
{
    int child_count = packet->neighbours.child_count;
    int parent = packet->neighbours.parent.rank, next = packet->neighbours.next.rank;
    int rank_fds = 1 + ATTACH_END_FDS; /* of a rank whose doorbell and end this one needs */
    int parent_fds = parent == node->members[0] ? 1 : rank_fds + 1;
    int is_deputy = packet->neighbours.is_deputy;
    if (child_count < 0 || child_count > TREE_NODE_RADIX || is_deputy < 0 || is_deputy > 1 ||
        fds->count != parent_fds + rank_fds * child_count + ATTACH_END_FDS * (next >= 0) + is_deputy)
        return false;
    if (parent >= node->rank || node_member_of(node, parent) == NULL)
        return false;
    if (next != -1 && (next <= node->rank || node_member_of(node, next) == NULL))
        return false;
    for (int i = 0; i < child_count; i++) {
        int child = packet->neighbours.children[i].rank;
        if (child <= node->rank || node_member_of(node, child) == NULL)
            return false;
    }
    return true;
}

static void keep_doorbell(struct node *node, int rank, int *fd)
{
    node->doorbells[node->doorbell_count].rank = rank;
    node->doorbells[node->doorbell_count++].fd = *fd;
    *fd = -1;
}

/* Watch a rank by the descriptors at [fds], which it takes. In another PID namespace the number that the
 * leader knows is another process's, or nobody's. */
static int watch_neighbour(struct node *node, const struct attach_neighbour *neighbour,
                           int fds[ATTACH_END_FDS], struct hvd_error *err)
{
    struct process_stat stat;
    struct watched_process process = {
        .rank = neighbour->rank, .fd = fds[0], .pid = neighbour->pid, .start = neighbour->start};
    if (process.start != 0 && (!process_stat_read(process.pid, &stat) || stat.start != process.start))
        process.start = 0;
    int status = attach_take_life(&process, fds[1], err);
    fds[0] = fds[1] = -1;
    return status == HVD_OK ? node_watch(node, &process, err) : status;
}

/* Take the descriptors of a valid packet; what was taken is -1 in [fds] afterwards. */
static int keep_neighbours(struct node *node, const struct attach_packet *packet, struct attach_fds *fds,
                           struct hvd_error *err)
{
    int at = 0, status = HVD_OK, leader = node->members[0];
    const struct attach_neighbour *parent = &packet->neighbours.parent, *next = &packet->neighbours.next;
    for (int i = -1; i < packet->neighbours.child_count && status == HVD_OK; i++) {
        const struct attach_neighbour *neighbour = i < 0 ? parent : &packet->neighbours.children[i];
        keep_doorbell(node, neighbour->rank, &fds->fd[at++]);
        if (neighbour->rank == leader) /* that is watched already */
            continue;
        status = watch_neighbour(node, neighbour, &fds->fd[at], err);
        at += ATTACH_END_FDS;
    }
    if (status == HVD_OK && parent->rank != leader)
        keep_doorbell(node, leader, &fds->fd[at++]);
    if (status == HVD_OK && next->rank >= 0) {
        status = watch_neighbour(node, next, &fds->fd[at], err);
        at += ATTACH_END_FDS;
    }
    if (status == HVD_OK && packet->neighbours.is_deputy == 1) {
        node->deputy_fd = fds->fd[at];
        fds->fd[at] = -1;
    }
    return status;
}

/* The leader's last packet: the doorbells of ranks that this one wakes, and what shows the ends of others. */
static int member_finish(struct attach_member *member, int64_t until_us, struct hvd_error *err)
{
    struct node *node = member->node;
    struct attach_packet packet;
    struct attach_fds fds;
    int status = member_receive(member, ATTACH_NEIGHBOURS, &packet, &fds, until_us, err);
    if (status != HVD_OK)
        return status;
    if (!neighbours_are_valid(node, &packet, &fds)) {
        attach_close_fds(&fds);
        return error_set(err, HVD_ERR_SYSTEM, "named neighbours that this rank cannot have");
    }
    status = node_watch(node, &member->process, err);
    if (status == HVD_OK)
        status = keep_neighbours(node, &packet, &fds, err);
    attach_close_fds(&fds); /* those that were not kept */
    return status;
}

/* One attempt. */
static int member_try(struct attach_member *member, int64_t deadline_us, struct hvd_error *err)
{
    int64_t until_us = deadline_us;
    member->fd = -1;
    member->process = (struct watched_process){.rank = member->leader, .fd = -1, .life_fd = -1};
    int status = member_connect(member, err);
    if (status == HVD_OK)
        status = member_authenticate(member, deadline_us, err);
    if (status == HVD_OK)
        status = member_send_doorbell(member, err);
    if (status == HVD_OK)
        status = member_map(member, deadline_us, &until_us, err);
    if (status == HVD_OK)
        status = member_finish(member, until_us, err);
    attach_forget_process(&member->process);
    descriptors_close(&member->fd);
    return status;
}

int attach_as_member(struct node *node, const struct peer_table *peer_table, int leader, int64_t deadline_us,
                     struct hvd_error *err)
{
    struct attach_member member = {.node = node, .peer_table = peer_table, .leader = leader};
    struct hvd_error why, now;
    int pause_ms = 1;
    int status = member_try(&member, deadline_us, &why);
    while (status != HVD_OK && status != HVD_ERR_NO_MEMORY && !member.authenticated) {
        int left_ms = clock_ms_until(deadline_us);
        poll(NULL, 0, pause_ms < left_ms ? pause_ms : left_ms);
        if (clock_us() >= deadline_us || news_came(peer_table->news))
            break;
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        status = member_try(&member, deadline_us, &now);
        /* An attempt that the deadline cut short says less than the one before. */
        if (status != HVD_ERR_TIMEOUT)
            why = now;
    }
    if (status == HVD_OK)
        return HVD_OK;
    if (news_came(peer_table->news))
        return news_error(err);
    return error_set(err, member.authenticated || status == HVD_ERR_NO_MEMORY ? status : HVD_ERR_TIMEOUT,
                     "rank %d does not share memory with the first rank of its node, rank %d: it %s",
                     node->rank, member.leader, why.text);
}
