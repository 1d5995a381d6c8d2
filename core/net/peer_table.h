/* peer_table.h: who is in the job, and where each rank can be reached. Bootstrap fills it by wire-up. */
#ifndef NET_PEER_TABLE_H
#define NET_PEER_TABLE_H

#include <netinet/in.h>
#include <stdbool.h>

#include "base/job.h"
#include "base/log.h"
#include "base/status.h"

#define JOB_KEY_BYTES      32
#define PEER_MAX_ADDRESSES 8

struct peer {
    char host[256];
    int32_t pid;
    uint16_t port;         /* on which its endpoint listens */
    uint16_t message_port; /* and its endpoint for messages, to which any rank connects at any time, while the
                              others accept what both ends know of; 0: none */
    uint8_t address_count;
    struct in6_addr addresses[PEER_MAX_ADDRESSES]; /* IPv4 mapped; loopback if the node key is ours */
    uint64_t node_key;                             /* ranks with the same key may try to share memory */
    uint64_t net_key; /* ranks with the same key share their network interfaces; 0: unknown */
    int leader;       /* the lowest rank that shares memory with this one; it identifies the node */
};

struct peer_table {
    int rank, size;
    const struct hvd_log *log; /* for messages while ranks connect, or NULL; must outlive the table */
    int64_t lease_us;          /* how long a connection may be silent; 0: not known */
    const int *news;           /* as in base/news.h */
    bool beats;                /* nodes that send no beats are lost, as an elastic job goes on without them */
    void (*tell_launcher)(void); /* of an elastic job, by the leader of a node: it runs; else NULL */
    uint32_t epoch;
    bool encrypt;                     /* seal all connections but those of probes */
    uint64_t start_id;                /* hash of what wire-up carries in place of the key: names this start */
    unsigned char key[JOB_KEY_BYTES]; /* of the job: random bytes that rank 0 generated */
    struct peer *peers;               /* [size] */
    int *node_of_rank;                /* [size]: peers[i].leader, in the form that tree_shape_of_rank reads */
    void *mapping;                    /* where both lie, read-only; NULL: in memory of their own */
    size_t mapping_bytes;
};

/* Make a table of [job] in which nothing is known of any rank yet. */
int peer_table_open(struct peer_table *peer_table, const struct hvd_job *job, struct hvd_error *err);

/* Number the networks: the network of each rank goes into [network_of_rank], and the first rank of each
 * network, in ascending order, into [first_ranks] (both with room for all ranks). Returns how many
 * networks there are, which is 1 if any rank does not know its network; or HVD_ERR_NO_MEMORY. */
int peer_table_networks(const struct peer_table *peer_table, int *network_of_rank, int *first_ranks);

/* From now on have [peers] and [node_of_rank], which lie in [mapping]; it is unmapped with the table. */
void peer_table_use_mapping(struct peer_table *peer_table, void *mapping, size_t bytes,
                            const struct peer *peers, const int *node_of_rank);

/* Wipes the key. A zeroed struct is fine. */
void peer_table_close(struct peer_table *peer_table);

/* Write "rank 3 (n2)" into [text], for messages. */
void peer_table_rank_name(const struct peer_table *peer_table, int rank, char *text, size_t text_bytes);

#endif
