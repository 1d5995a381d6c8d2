/* attach.h: how the ranks of a node find each other: what the first one, the leader, and its members say.
 *
 *   member -> leader   HELLO     I am rank r; a nonce
 *   leader -> member   PROOF     a nonce; keyed mac of both: I hold the job's key
 *   member -> leader   ANSWER    keyed mac of both: so do I; its doorbell
 *   leader -> member   MEMORY    the memory, and the windows where it could make any; how long others may
 *                                still take
 *   member -> leader   ATTACHED  the memory is mapped
 *   leader -> member   BELLS     who came: doorbells of its parent and children, its parent's pidfd
 *
 * Until its PROOF (ANSWER) was checked a peer gets nothing of ours. Packets are structs in this machine's
 * byte order. */
#ifndef NODE_ATTACH_H
#define NODE_ATTACH_H

#include <sys/un.h>

#include "node/node_memory.h"
#include "node/node.h"
#include "node/process_watch.h"
#include "node/windows.h"

#define ATTACH_MAGIC          UINT32_C(0x4d647668) /* "hvdM" as bytes */
#define ATTACH_VERSION        2
#define ATTACH_NONCE_BYTES    32
#define ATTACH_MAC_BYTES      32
#define ATTACH_MAX_NEIGHBOURS (TREE_NODE_RADIX + 1) /* of the parent and the children */
#define ATTACH_MAX_FDS \
    (ATTACH_MAX_NEIGHBOURS + 1) /* most descriptors of one packet: those wakeups and a pidfd */

enum attach_packet_type {
    ATTACH_HELLO = 1,
    ATTACH_PROOF,
    ATTACH_RESPONSE,
    ATTACH_MEMORY,
    ATTACH_MAPPED,
    ATTACH_WAKEUPS
};

struct attach_packet {
    uint32_t magic;
    uint16_t version;
    uint16_t type; /* enum attach_packet_type */
    int32_t rank;  /* of the member */
    union {
        unsigned char nonce[ATTACH_NONCE_BYTES]; /* HELLO */
        struct {
            unsigned char nonce[ATTACH_NONCE_BYTES];
            unsigned char mac[ATTACH_MAC_BYTES];
        } proof;
        struct {
            unsigned char mac[ATTACH_MAC_BYTES];
            int32_t watches; /* 1: it could open a pidfd of the leader; 0: it will not take part */
        } answer;
        int64_t left_us; /* MEMORY */
        struct {
            int32_t parent; /* its doorbell, then its pidfd where it is not the leader, come first */
            int32_t child_count;
            int32_t children[TREE_NODE_RADIX];
        } wakeups;
    };
};

/* Descriptors that come with a packet. */
struct attach_fds {
    int count;
    int fd[ATTACH_MAX_FDS];
};

/* What a rank has after the meeting. */
struct node {
    int rank;
    int member_count;
    int *members; /* ascending, as node_attach was called; slots go by this index */
    struct node_memory *memory;
    struct windows windows; /* places go by the same index; none where this rank could not map them */
    int wakeup;             /* this rank's eventfd */
    int wakeup_count;
    struct {
        int rank, fd;
    } wakeups[ATTACH_MAX_NEIGHBOURS]; /* of its relatives in the node */
    int watched_count;
    struct watched_process
        *watched; /* ranks and pidfds: the leader's: all that came; a member's: leader and parent */
};

/* The slot of [rank], or NULL where it is no member. */
struct node_member *node_member_of(const struct node *node, int rank);

/* In a forked child: close the descriptors; the memory did not come along. */
void node_after_fork(struct node *node);

/* Remember to watch [rank]; takes [pidfd], also on failure. */
int node_watch(struct node *node, int rank, int pidfd, struct hvd_error *err);

/* The name of the socket; returns the length of the address. */
socklen_t attach_address(const struct peer_table *peer_table, int leader, struct sockaddr_un *address);

/* What each end drew, so that no answer of another meeting fits; both of ATTACH_NONCE_BYTES. */
struct attach_nonces {
    const unsigned char *member, *leader;
};

/* The keyed mac that shows who holds the key: [type] is ATTACH_PROOF or ATTACH_RESPONSE. */
void attach_mac(const struct peer_table *peer_table, enum attach_packet_type type, int leader, int rank,
                const struct attach_nonces *nonces_of, unsigned char mac[ATTACH_MAC_BYTES]);

/* One packet. 0, or -1 with errno. [fds] may be NULL. */
int attach_send(int fd, enum attach_packet_type type, struct attach_packet *packet,
                const struct attach_fds *fds);

/* HVD_OK; HVD_IN_PROGRESS where nothing is there; HVD_ERR_SYSTEM, with a phrase that follows "it", where the
 * other end is gone or what came is not [type]; then *fds is empty. Its descriptors are the caller's. */
int attach_receive(int fd, enum attach_packet_type type, struct attach_packet *packet, struct attach_fds *fds,
                   struct hvd_error *err);
void attach_close_fds(struct attach_fds *fds);

/* Who is at the other end: HVD_OK, its pid, and a pidfd, or -errno where it cannot be watched, as in a
 * container of its own; HVD_ERR_SYSTEM with a phrase where it is not a process of this user. Call it before a
 * handshake: an answer afterwards shows that the pid was not used again. */
int attach_identify_peer(int fd, pid_t *pidp, int *pidfdp, struct hvd_error *err);

/* The two sides. [node] has rank and members; they add the rest. */
int attach_as_leader(struct node *node, const struct peer_table *peer_table, int64_t deadline_us,
                     struct hvd_error *err);
int attach_as_member(struct node *node, const struct peer_table *peer_table, int64_t deadline_us,
                     struct hvd_error *err);

#endif
