/* probe.h: try the rails of a job: connect to other nodes on each of them, all at once. */
#ifndef NET_PROBE_H
#define NET_PROBE_H

#include "net/endpoint.h"
#include "net/network.h"

/* Whoever tries, and with what. */
struct prover {
    const struct network_node *nodes;
    const struct network_plan *plan;
    const int *ranks;            /* of each node: who tries for it */
    int node;                    /* ours */
    struct endpoint_want *wants; /* its connections; NULL to begin with */
    int want_count;
};

/* Connect as network_edges says, on each rail, and look where each connection comes from: into [proof], which
 * rails do not work here and why. Ends by [deadline_us], and within seconds. HVD_OK also where none works.
 * Connections stay until prove_end, which waits until all have tried: who sees its peer hang up cannot tell
 * that it was satisfied. */
int prove(struct prover *prover, struct endpoint *endpoint, const struct roster *roster, int64_t deadline_us,
          struct network_proof *proof, struct hvd_error *err);

/* A zeroed one is fine. */
void prove_end(struct prover *prover);

#endif
