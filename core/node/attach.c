/* attach.c: how the ranks of a node come to share memory: what the leader and the members both need. */
#include "config.h"
#include "node/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/fd_passing.h"
#include "base/kernel.h"
#include "base/packet.h"
#include "base/process_stat.h"

_Static_assert(ATTACH_MAX_FDS <= FD_PASSING_MAX, "a packet can carry the descriptors of all neighbours");

int node_index_of(const struct node *node, int rank)
{
    int low = 0, high = node->member_count - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (node->members[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return node->member_count > 0 && node->members[low] == rank ? low : -1;
}

struct node_member *node_member_of(const struct node *node, int rank)
{
    int index = node_index_of(node, rank);
    return index < 0 ? NULL : &node->memory->members[index];
}

struct arena node_arena(const struct node *node)
{
    if (node == NULL)
        return (struct arena){0};
    return (struct arena){node_memory_arena(node->memory, node->member_count),
                          (size_t)node->member_count * NODE_MEMORY_ARENA_BYTES};
}

bool node_leads(const struct node *node)
{
    return node != NULL && node->members[0] == node->rank;
}

int node_attached_ranks(const struct node *node, int *ranks)
{
    ranks[0] = node->rank;
    for (int i = 0; i < node->attached_count; i++)
        ranks[i + 1] = node->attached[i];
    return node->attached_count + 1;
}

int node_peers_file(const struct node *node)
{
    return node->peers_fd;
}

struct windows node_take_windows(struct node *node)
{
    if (node == NULL)
        return (struct windows){.base = NULL};
    struct windows windows = node->windows;
    node->windows = (struct windows){.base = NULL};
    return windows;
}

/* Tell the others where this rank may run. */
static void publish_cores(const struct node *node)
{
    struct cores own;
    struct node_member *slot = node_member_of(node, node->rank);
    cores_of_thread(&own);
    for (int i = 0; i < CORES_WORDS; i++)
        atomic_store(&slot->cores[i], own.words[i]);
}

int node_oversubscription(const struct node *node, struct oversubscription *oversubscription,
                          struct hvd_error *err)
{
    *oversubscription = (struct oversubscription){.apart = false};
    if (node == NULL)
        return HVD_OK;
    struct cores *ranks = calloc((size_t)node->member_count, sizeof(*ranks));
    if (ranks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for the cores of %d ranks",
                         node->member_count);
    for (int rank = 0; rank < node->member_count; rank++) {
        for (int i = 0; i < CORES_WORDS; i++) {
            ranks[rank].words[i] = atomic_load(&node->memory->members[rank].cores[i]);
            oversubscription->all.words[i] |= ranks[rank].words[i];
        }
    }
    for (int rank = 1; rank < node->member_count; rank++)
        oversubscription->apart =
            oversubscription->apart || memcmp(&ranks[0], &ranks[rank], sizeof(ranks[0])) != 0;
    oversubscription->oversubscribed = !cores_suffice(ranks, node->member_count, 1);
    oversubscription->no_spare_core =
        oversubscription->oversubscribed || !cores_suffice(ranks, node->member_count, 2);
    free(ranks);
    return HVD_OK;
}

int node_watch(struct node *node, struct watched_process *process, struct hvd_error *err)
{
    struct watched_process *watched =
        realloc(node->watched, ((size_t)node->watched_count + 1) * sizeof(*watched));
    if (watched == NULL) {
        attach_forget_process(process);
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory for watching rank %d", process->rank);
    }
    node->watched = watched;
    watched[node->watched_count++] = *process;
    process->fd = process->life_fd = -1;
    return HVD_OK;
}

socklen_t attach_address(const struct peer_table *peer_table, int leader, struct sockaddr_un *address)
{
    static const char purpose[] = "hvd node name";
    const uint32_t job[3] = {peer_table->epoch, HANDSHAKE_VERSION, (uint32_t)leader};
    unsigned char hash[32];
    char name[2 * sizeof(hash) + 1];
    crypto_generichash_state state;
    crypto_generichash_init(&state, peer_table->key, sizeof(peer_table->key), sizeof(hash));
    crypto_generichash_update(&state, (const unsigned char *)purpose, sizeof(purpose));
    crypto_generichash_update(&state, (const unsigned char *)job, sizeof(job));
    crypto_generichash_final(&state, hash, sizeof(hash));
    sodium_bin2hex(name, sizeof(name), hash, sizeof(hash));
    /* The first byte 0 makes it abstract: it is no file, and belongs to this network namespace. */
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "hvd-%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

int attach_send(int fd, enum attach_packet_type type, struct attach_packet *packet,
                const struct attach_fds *fds)
{
    packet->type = type;
    struct iovec part = {packet, sizeof(*packet)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct fd_passing room;
    if (fds != NULL)
        fd_passing_attach(&message, &room, fds->fd, fds->count);
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? -1 : 0;
}

int attach_receive(int fd, enum attach_packet_type type, struct attach_packet *packet, struct attach_fds *fds,
                   struct hvd_error *err)
{
    struct iovec part = {packet, sizeof(*packet)};
    struct fd_passing room;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    fds->count = 0;
    fd_passing_expect(&message, &room, ATTACH_MAX_FDS);
    ssize_t length = packet_receive(fd, &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return HVD_IN_PROGRESS;
    if (length < 0)
        return error_set_errno(err, "cannot be heard");
    fds->count = fd_passing_take(&message, fds->fd, ATTACH_MAX_FDS);
    int status = HVD_OK;
    if (length == 0)
        status = error_set(err, HVD_ERR_SYSTEM, "closed the connection");
    else if ((message.msg_flags & MSG_CTRUNC) != 0 && fds->count == ATTACH_MAX_FDS)
        status = error_set(err, HVD_ERR_SYSTEM, "sent more than %d descriptors", ATTACH_MAX_FDS);
    else if ((message.msg_flags & MSG_CTRUNC) != 0)
        status = error_set(err, HVD_ERR_NO_MEMORY,
                           "sent more descriptors than this process may still open; raise `ulimit -n`");
    else if (length != sizeof(*packet) || (message.msg_flags & MSG_TRUNC) != 0)
        status = error_set(err, HVD_ERR_SYSTEM, "sent %zd bytes, expected a packet of %zu", length,
                           sizeof(*packet));
    else if (packet->type == ATTACH_REFUSAL)
        status = error_set(err, HVD_ERR_UNSUPPORTED, "has no memory to share: %.*s", ATTACH_REFUSAL_BYTES - 1,
                           packet->refusal);
    else if (packet->type != (int32_t)type)
        status =
            error_set(err, HVD_ERR_SYSTEM, "sent a packet of type %d, expected type %d", packet->type, type);
    if (status != HVD_OK)
        attach_close_fds(fds);
    return status;
}

void attach_close_fds(struct attach_fds *fds)
{
    while (fds->count > 0)
        descriptors_close(&fds->fd[--fds->count]);
}

int attach_identify_peer(int fd, struct watched_process *process, struct hvd_error *err)
{
    struct ucred peer = {0};
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return error_set_errno(err, "does not show who it is");
    process->pid = peer.pid;
    if (peer.uid != geteuid())
        return error_set(err, HVD_ERR_SYSTEM, "belongs to user %u, expected %u", (unsigned)peer.uid,
                         (unsigned)geteuid());
    struct process_stat stat;
    process->fd = kernel_pidfd_open(peer.pid);
    if (process->fd < 0 && peer.pid > 0 && process_stat_read(peer.pid, &stat))
        process->start = stat.start;
    return HVD_OK;
}

/* The same pipe as a file of this process. A file that came from another process is watched by many, and the
 * kernel limits how many epoll descriptors may lead to one file. Returns -1 if /proc cannot give it. */
static int reopen(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return descriptors_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
}

int attach_take_life(struct watched_process *process, int life_fd, struct hvd_error *err)
{
    process->life_fd = reopen(life_fd);
    if (process->fd < 0)
        process->fd = process->life_fd >= 0 ? fcntl(process->life_fd, F_DUPFD_CLOEXEC, 0)
                                            : fcntl(life_fd, F_DUPFD_CLOEXEC, 0);
    int problem = errno;
    close(life_fd);
    errno = problem;
    return process->fd >= 0 ? HVD_OK : error_set_errno(err, "cannot be watched (F_DUPFD_CLOEXEC)");
}

void attach_forget_process(struct watched_process *process)
{
    descriptors_close(&process->fd);
    descriptors_close(&process->life_fd);
}

/* As long as this process holds the write end, it lives. */
static int open_life(struct node *node, struct hvd_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, "cannot make the pipe by which other ranks see this one's end");
    node->life_read_fd = ends[0];
    node->life_fd = ends[1];
    return HVD_OK;
}

bool attach_members_are_valid(const struct peer_table *peer_table, const int *members, int member_count)
{
    bool present = false;
    for (int i = 0; i < member_count; i++) {
        if (members[i] < 0 || members[i] >= peer_table->size || (i > 0 && members[i] <= members[i - 1]))
            return false;
        present = present || members[i] == peer_table->rank;
    }
    return present;
}

/* A leader must name all members; a member need only know its leader. */
static bool call_is_valid(const struct peer_table *peer_table, const int *members, int member_count)
{
    if (member_count < 1 || members[0] == peer_table->rank)
        return attach_members_are_valid(peer_table, members, member_count);
    return members[0] >= 0 && members[0] < peer_table->rank;
}

int node_attach(struct node **nodep, const struct peer_table *peer_table, const int *members,
                int member_count, int64_t deadline_us, struct hvd_error *err)
{
    if (!call_is_valid(peer_table, members, member_count))
        return error_set(err, HVD_ERR_INVALID,
                         "the ranks of this node must ascend, exist and hold rank %d itself",
                         peer_table->rank);
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium finds no random numbers");
    int status = HVD_ERR_NO_MEMORY;
    struct node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return error_set(err, status, "out of memory for a node of %d ranks", member_count);
    *node = (struct node){.rank = peer_table->rank,
                          .doorbell = -1,
                          .peers_fd = -1,
                          .life_fd = -1,
                          .life_read_fd = -1,
                          .deputy_fd = -1};
    node->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (node->doorbell < 0) {
        status = error_set_errno(err, "cannot make a doorbell (eventfd)");
        goto fail;
    }
    status = open_life(node, err);
    if (status != HVD_OK)
        goto fail;
    if (members[0] == peer_table->rank)
        status = attach_as_leader(node, peer_table, members, member_count, deadline_us, err);
    else
        status = attach_as_member(node, peer_table, members[0], deadline_us, err);
    if (status != HVD_OK)
        goto fail;
    descriptors_close(&node->life_read_fd);
    publish_cores(node);
    *nodep = node;
    return HVD_OK;

fail:
    node_close(node);
    return status;
}

void node_after_fork(struct node *node)
{
    node->memory = NULL;
    for (int i = 0; i < node->doorbell_count; i++)
        close(node->doorbells[i].fd);
    for (int i = 0; i < node->watched_count; i++)
        attach_forget_process(&node->watched[i]);
    descriptors_close(&node->doorbell);
    descriptors_close(&node->peers_fd);
    descriptors_close(&node->life_read_fd);
    descriptors_close(&node->life_fd);
    descriptors_close(&node->deputy_fd);
    node->doorbell_count = node->watched_count = 0;
}

void node_close(struct node *node)
{
    if (node == NULL)
        return;
    struct node_member *slot = node->memory == NULL ? NULL : node_member_of(node, node->rank);
    if (slot != NULL)
        atomic_store(&slot->closed, 1);
    node_memory_detach(node->memory, node->member_count);
    windows_detach(&node->windows);
    node_after_fork(node);
    free(node->watched);
    free(node->attached);
    free(node->members);
    free(node);
}
