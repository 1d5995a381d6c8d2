/* probe.h: tries the rails of a job by connecting to other nodes on all of them at the same time. */
#ifndef NET_PROBE_H
#define NET_PROBE_H

#include "net/establishment.h"
#include "net/network.h"

/* A probe under way. */
struct probe {
    const struct network_node *nodes;
    const struct network_plan *plan;
    const int *ranks;                        /* for each node, the rank that probes for it */
    int node;                                /* this rank's node */
    struct endpoint_connection *connections; /* its connections; NULL before probe_run */
    int connection_count;
};

/* Connect as network_probe_edges says, on each rail, and check which address each connection comes from.
 * [result] gets, for each rail that does not work here, the reason. Ends by [deadline_us], and within
 * seconds. HVD_OK even if no rail works. The connections stay open until probe_close, which must wait
 * until all ranks have probed: if a peer closed its end early, a rank could not tell whether the attempt
 * had succeeded. */
int probe_run(struct probe *probe, struct endpoint *endpoint, const struct peer_table *peer_table,
              int64_t deadline_us, struct network_probe_result *result, struct hvd_error *err);

/* A zeroed probe is fine. */
void probe_close(struct probe *probe);

#endif
