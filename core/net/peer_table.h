/* peer_table.h: who is in the job and where each rank can be reached; filled at the job's start by way of
 * wire-up. */
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
    uint16_t port; /* of its endpoint */
    uint8_t address_count;
    struct in6_addr
        addresses[PEER_MAX_ADDRESSES]; /* IPv4 as ::ffff:a.b.c.d; loopback for those of our node key */
    uint64_t node_key;                 /* ranks of the same one may try to share memory */
    uint64_t net_key;                  /* ranks of the same one share their network interfaces; 0: unknown */
    int leader;                        /* lowest rank that shares memory with it: its node */
};

struct peer_table {
    int rank, size;
    const struct hvd_log
        *log; /* for messages while ranks connect; must outlive the table; NULL: none are written */
    uint32_t epoch;
    unsigned char key[JOB_KEY_BYTES]; /* of the job: random bytes that rank 0 has chosen */
    struct peer *peers;               /* [size] */
    int *node_of_rank;                /* [size]: peers[i].leader, as tree_shape_of_rank takes it */
};

/* Begin a table of [job] in which every rank is a node of its own. */
int peer_table_open(struct peer_table *peer_table, const struct hvd_job *job, struct hvd_error *err);

/* The ranks that may share memory with this one, itself included, ascending, into [members] (room for all
 * ranks); returns how many. */
int peer_table_local_peers(const struct peer_table *peer_table, int *members);

/* Which ranks share network interfaces: of each rank the number of its network into [network_of_rank] (room
 * for all), and of each network its first rank, ascending, into [first_ranks] (the same). Returns how many
 * networks there are; 1 also where some rank does not know its network; or HVD_ERR_NO_MEMORY. */
int peer_table_networks(const struct peer_table *peer_table, int *network_of_rank, int *first_ranks);

/* Settle the nodes: [attached] says of each rank whether it shares the memory of the first rank of its node
 * key, and of those first ranks whether they have such memory. A rank that shares none is a node of its own.
 */
int peer_table_assign_nodes(struct peer_table *peer_table, const bool *attached, struct hvd_error *err);

/* A zeroed struct is fine. Wipes the key. */
void peer_table_close(struct peer_table *peer_table);

/* "rank 3 (n2)" into [text], for sentences. */
void peer_table_rank_name(const struct peer_table *peer_table, int rank, char *text, size_t text_bytes);

#endif
