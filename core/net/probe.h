/* probe.h: try the rails of a job: connect to other nodes on each of them, all at once. */
#ifndef NET_PROBE_H
#define NET_PROBE_H

#include "net/endpoint.h"
#include "net/network.h"

/* What a probe needs to know. */
struct probe {
    const struct network_node *nodes;
    const struct network_plan *plan;
    const int *ranks;                  /* of each node: who tries for it */
    int node;                          /* ours */
    struct endpoint_connection *wants; /* its connections; NULL to begin with */
    int want_count;
};

/* Connect as network_probe_edges says, on each rail, and look where each connection comes from: into
 * [result], which rails do not work here and why. Ends by [deadline_us], and within seconds. HVD_OK also
 * where none works. Connections stay until probe_close, which waits until all ranks have tried: a rank whose
 * peer closes the connection could not tell whether the attempt had succeeded. */
int probe_run(struct probe *probe, struct endpoint *endpoint, const struct peer_table *peer_table,
              int64_t deadline_us, struct network_probe_result *result, struct hvd_error *err);

/* A zeroed one is fine. */
void probe_close(struct probe *probe);

#endif
