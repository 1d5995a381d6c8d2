/* attach.h: how the ranks of a node find each other and come to share memory. The lowest of them, the leader,
 * listens on a socket whose name only holders of the job key can compute; each other one, a member, connects:
 *
 *   first the handshake of auth/handshake.h, in which the member is the connector; then one packet each:
 *
 *   member -> leader   DOORBELL     the member's doorbell and life pipe
 *   leader -> member   MEMORY       the memory, the file of peers, the leader's life pipe, the windows if the
 *                                   leader could make them, the time left
 *   member -> leader   MAPPED       the memory is mapped
 *   leader -> member   NEIGHBOURS   doorbells of its parent, its children and the leader; what shows the ends
 *                                   of its parent, its children and the next rank; the deputy's end of a
 *                                   socket (deputy.h)
 *
 * Where the leader cannot share memory, or finds out later that it cannot go on, REFUSAL, with the reason,
 * takes the place of MEMORY or NEIGHBOURS.
 *
 * Two descriptors show the end of a process: its pidfd (or a copy of its life pipe) and its life pipe, see
 * process_watch.h. Neither end gives the other a descriptor before the handshake is done. Packets are
 * structs in this machine's byte order. */
#ifndef NODE_ATTACH_H
#define NODE_ATTACH_H

#include <sys/un.h>

#include "auth/handshake.h"
#include "node/node_memory.h"
#include "node/node.h"
#include "node/process_watch.h"
#include "node/windows.h"

#define ATTACH_MAX_NEIGHBOURS (TREE_NODE_RADIX + 1) /* the parent and the children */
/* Descriptors that show the end of a rank, see watched_process. A packet has at most a doorbell and these of
 * each neighbour, the leader's doorbell, these of the next rank, and the deputy's socket. */
#define ATTACH_END_FDS 2
#define ATTACH_MAX_FDS ((1 + ATTACH_END_FDS) * ATTACH_MAX_NEIGHBOURS + 1 + ATTACH_END_FDS + 1)

#define ATTACH_REFUSAL_BYTES 400

enum attach_packet_type {
    ATTACH_DOORBELL = 1,
    ATTACH_MEMORY,
    ATTACH_MAPPED,
    ATTACH_NEIGHBOURS,
    ATTACH_REFUSAL
};

/* A rank that another one watches; as watched_process, whose descriptors come with the packet. */
struct attach_neighbour {
    int32_t rank, pid;
    uint64_t start;
};

struct attach_packet {
    int32_t type; /* enum attach_packet_type */
    union {
        struct {
            int64_t left_us;
            int32_t member_count;
        } memory;
        char refusal[ATTACH_REFUSAL_BYTES]; /* a sentence */
        struct {
            int32_t child_count;
            /* in the order of their descriptors: a doorbell, and what shows its end unless it is the leader
             */
            struct attach_neighbour parent, children[TREE_NODE_RADIX];
            /* then the leader's doorbell unless it is the parent, and what shows the next one's end */
            struct attach_neighbour next; /* the rank after this one; its rank is -1 if there is none */
            int32_t is_deputy; /* 1: the last descriptor is the deputy's end of the socket with the leader */
        } neighbours;
    };
};

/* Descriptors that come with a packet. */
struct attach_fds {
    int count;
    int fd[ATTACH_MAX_FDS];
};

/* What a rank has once it is attached. */
struct node {
    int rank;
    int member_count;
    int *members; /* ascending; slots go by this index */
    struct node_memory *memory;
    struct windows windows; /* places go by the same index; none where this rank could not map them */
    int peers_fd;           /* of the file of peers, see node.h; -1: none */
    int doorbell;           /* this rank's eventfd */
    int life_fd;            /* the write end of this rank's life pipe */
    int life_read_fd;       /* the read end, for the others; only until this rank is attached */
    int deputy_fd; /* on the leader and its deputy, where there are other nodes: see deputy.h; -1: none */
    int doorbell_count;
    struct {
        int rank, fd;
    } doorbells[ATTACH_MAX_NEIGHBOURS + 1]; /* of its neighbours in the node's tree, and of the leader */
    int watched_count;
    struct watched_process *watched; /* a rank watches its children in the node's tree and the next rank
                                        above it; a member also its leader, which comes first, and its
                                        parent */
    int attached_count;
    int *attached; /* on the leader: the ranks that attached to it, ascending */
};

/* The place of [rank] among the members, or -1. */
int node_index_of(const struct node *node, int rank);

/* The slot of [rank], or NULL where it is no member. */
struct node_member *node_member_of(const struct node *node, int rank);

/* In a forked child: close the descriptors; the memory did not come along. */
void node_after_fork(struct node *node);

/* Remember to watch [process]; takes its descriptors, also on failure, and sets them to -1. */
int node_watch(struct node *node, struct watched_process *process, struct hvd_error *err);

/* The name of the socket; returns the length of the address. */
socklen_t attach_address(const struct peer_table *peer_table, int leader, struct sockaddr_un *address);

/* One packet. 0, or -1 with errno. [fds] may be NULL. */
int attach_send(int fd, enum attach_packet_type type, struct attach_packet *packet,
                const struct attach_fds *fds);

/* HVD_OK, and the descriptors in *fds are the caller's; HVD_IN_PROGRESS where nothing is there. With a phrase
 * that follows "it", and nothing in *fds: HVD_ERR_UNSUPPORTED where REFUSAL came; HVD_ERR_NO_MEMORY where no
 * descriptors are left for those that came; HVD_ERR_SYSTEM where the other end is gone or what came is not
 * [type]. */
int attach_receive(int fd, enum attach_packet_type type, struct attach_packet *packet, struct attach_fds *fds,
                   struct hvd_error *err);
void attach_close_fds(struct attach_fds *fds);

/* Who is at the other end: HVD_OK, its pid, and a pidfd, or -1 where there is none, as on an old kernel or in
 * a container of its own; HVD_ERR_SYSTEM with a phrase where it is not a process of this user. Call it before
 * the handshake: a message that comes afterwards proves that the process lived on, so that the pid was not
 * used again before the pidfd was open. */
int attach_identify_peer(int fd, struct watched_process *peer, struct hvd_error *err);

/* [life_fd], which it takes, came from [process]: watch it too, as a file of this process; without /proc only
 * if there is no pidfd. HVD_OK, or an error with a phrase that follows "it". */
int attach_take_life(struct watched_process *process, int life_fd, struct hvd_error *err);

/* Close what shows the end of [process]. */
void attach_forget_process(struct watched_process *process);

/* Do [members] ascend, exist and hold this rank? */
bool attach_members_are_valid(const struct peer_table *peer_table, const int *members, int member_count);

/* The two sides. [node] has its rank and doorbell; they add the rest. */
int attach_as_leader(struct node *node, const struct peer_table *peer_table, const int *members,
                     int member_count, int64_t deadline_us, struct hvd_error *err);
int attach_as_member(struct node *node, const struct peer_table *peer_table, int leader, int64_t deadline_us,
                     struct hvd_error *err);

#endif
