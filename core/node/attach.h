/* attach.h: how the ranks of a node find each other: what the first one, the leader, and its members say.
 *
 *   member -> leader   HELLO     I am rank r; a nonce
 *   leader -> member   PROOF     a nonce; keyed hash of both: I hold the job's key
 *   member -> leader   ANSWER    keyed hash of both: so do I; its doorbell
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

#define MEET_MAGIC       UINT32_C(0x4d647668) /* "hvdM" as bytes */
#define MEET_VERSION     2
#define MEET_NONCE_BYTES 32
#define MEET_HASH_BYTES  32
#define MEET_RELATIVES   (SHAPE_NODE_RADIX + 1) /* of the parent and the children */
#define MEET_FDS         (MEET_RELATIVES + 1)   /* most descriptors of one packet: those bells and a pidfd */

enum meet_step { MEET_HELLO = 1, MEET_PROOF, MEET_ANSWER, MEET_MEMORY, MEET_ATTACHED, MEET_BELLS };

struct meet_packet {
    uint32_t magic;
    uint16_t version;
    uint16_t step; /* enum meet_step */
    int32_t rank;  /* of the member */
    union {
        unsigned char nonce[MEET_NONCE_BYTES]; /* HELLO */
        struct {
            unsigned char nonce[MEET_NONCE_BYTES];
            unsigned char hash[MEET_HASH_BYTES];
        } proof;
        struct {
            unsigned char hash[MEET_HASH_BYTES];
            int32_t watches; /* 1: it could open a pidfd of the leader; 0: it will not take part */
        } answer;
        int64_t left_us; /* MEMORY */
        struct {
            int32_t parent; /* its doorbell, then its pidfd where it is not the leader, come first */
            int32_t child_count;
            int32_t children[SHAPE_NODE_RADIX];
        } bells;
    };
};

/* Descriptors that come with a packet. */
struct meet_fds {
    int count;
    int fd[MEET_FDS];
};

/* What a rank has after the meeting. */
struct node {
    int rank;
    int member_count;
    int *members; /* ascending, as node_meet was called; slots go by this index */
    struct memory *memory;
    struct windows windows; /* places go by the same index; none where this rank could not map them */
    int bell;               /* this rank's eventfd */
    int bell_count;
    struct {
        int rank, fd;
    } bells[MEET_RELATIVES]; /* of its relatives in the node */
    int watched_count;
    struct watched
        *watched; /* ranks and pidfds: the leader's: all that came; a member's: leader and parent */
};

/* The slot of [rank], or NULL where it is no member. */
struct memory_slot *node_slot(const struct node *node, int rank);

/* In a forked child: close the descriptors; the memory did not come along. */
void node_after_fork(struct node *node);

/* Remember to watch [rank]; takes [pidfd], also on failure. */
int node_watch(struct node *node, int rank, int pidfd, struct hvd_error *err);

/* The name of the socket; returns the length of the address. */
socklen_t meet_address(const struct roster *roster, int leader, struct sockaddr_un *address);

/* What each end drew, so that no answer of another meeting fits; both of MEET_NONCE_BYTES. */
struct meet_nonces {
    const unsigned char *member, *leader;
};

/* The keyed hash that shows who holds the key: [step] is MEET_PROOF or MEET_ANSWER. */
void meet_hash(const struct roster *roster, enum meet_step step, int leader, int rank,
               const struct meet_nonces *nonces_of, unsigned char hash[MEET_HASH_BYTES]);

/* One packet. 0, or -1 with errno. [fds] may be NULL. */
int meet_send(int fd, enum meet_step step, struct meet_packet *packet, const struct meet_fds *fds);

/* HVD_OK; HVD_IN_PROGRESS where nothing is there; HVD_ERR_SYSTEM, with a phrase that follows "it", where the
 * other end is gone or what came is not [step]; then *fds is empty. Its descriptors are the caller's. */
int meet_receive(int fd, enum meet_step step, struct meet_packet *packet, struct meet_fds *fds,
                 struct hvd_error *err);
void meet_close_fds(struct meet_fds *fds);

/* Who is at the other end: HVD_OK, its pid, and a pidfd, or -errno where it cannot be watched, as in a
 * container of its own; HVD_ERR_SYSTEM with a phrase where it is not a process of this user. Call it before a
 * handshake: an answer afterwards shows that the pid was not used again. */
int meet_peer(int fd, pid_t *pidp, int *pidfdp, struct hvd_error *err);

/* The two sides. [node] has rank and members; they add the rest. */
int meet_as_leader(struct node *node, const struct roster *roster, int64_t deadline_us,
                   struct hvd_error *err);
int meet_as_member(struct node *node, const struct roster *roster, int64_t deadline_us,
                   struct hvd_error *err);

#endif
