/* peers_file.h: how a node's leader hands its members what it knows of all ranks: one file that all of them
 * map, and that nobody can change once it is written. */
#ifndef BOOTSTRAP_PEERS_FILE_H
#define BOOTSTRAP_PEERS_FILE_H

#include "net/peer_table.h"
#include "node/cores.h"
#include "topo/nic_env.h"

/* What goes with the peers. */
struct peers_summary {
    struct nic_env settings;                  /* the network that other libraries should use */
    struct oversubscription oversubscription; /* of this node */
    uint64_t warnings;                        /* hvd_config.warnings of rank 0 */
};

/* On the leader: write [peer_table] and [summary] into the file [fd]. */
int peers_file_write(int fd, const struct peer_table *peer_table, const struct peers_summary *summary,
                     struct hvd_error *err);

/* On every rank of the node: let [peer_table] have the peers of the file instead of its own. */
int peers_file_map(int fd, struct peer_table *peer_table, struct peers_summary *summary,
                   struct hvd_error *err);

#endif
