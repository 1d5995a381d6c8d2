/* probe.c: tries the rails of a job by connecting to other nodes on all of them at the same time. */
#include "net/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "net/address.h"

/* For a first rail to work, on a node that is busy too: without one there is no job. At most half of the time
 * that the start has left: the other half is for saying so. */
#define PROBE_TIMEOUT_US INT64_C(15000000)
#define GRACE_US                                                                                             \
    INT64_C(1500000) /* for the other rails after the first: longer than TCP's first retransmission, after 1 \
                        s */

/* Both ends of a connection compute the same tag. */
static uint32_t tag_of(int rail, bool ring)
{
    return (uint32_t)(2 * rail + ring);
}

static const struct in6_addr *address_on(const struct probe *probe, int node, int rail)
{
    const struct network_rail_nic *rail_nic = network_rail_nic(probe->plan, node, rail);
    return &probe->nodes[node].nics[rail_nic->nic].addresses[rail_nic->address].address;
}

static void fill_connections(const struct probe *probe, const struct network_edge *edges, int edge_count,
                             struct endpoint_connection *connections)
{
    for (int rail = 0; rail < probe->plan->rail_count; rail++)
        for (int i = 0; i < edge_count; i++)
            connections[rail * edge_count + i] =
                (struct endpoint_connection){.rank = probe->ranks[edges[i].node],
                                             .purpose = ENDPOINT_PROBE,
                                             .tag = tag_of(rail, edges[i].ring),
                                             .connect = edges[i].connect,
                                             .lane = rail,
                                             .address = address_on(probe, edges[i].node, rail),
                                             .fd = -1};
}

/* A connection must come from the address of its rail; else a route leads through another interface. The
 * end that connects checks its own address, the end that accepts checks the peer's. */
static void check_source(const struct probe *probe, const struct network_edge *edge, int rail, int fd,
                         char why[NETWORK_WHY_BYTES])
{
    struct in6_addr source;
    char text[ADDRESS_TEXT_BYTES];
    int from = edge->connect ? probe->node : edge->node;
    if (!address_of_socket_end(fd, edge->connect, &source)) {
        snprintf(why, NETWORK_WHY_BYTES, "%.64s hung up", probe->nodes[edge->node].host);
        return;
    }
    if (network_owns_address(probe->plan, probe->nodes, from, rail, &source))
        return;
    address_text(&source, text);
    if (edge->connect)
        snprintf(why, NETWORK_WHY_BYTES, "a route leads to %.50s by way of %s instead",
                 probe->nodes[edge->node].host, text);
    else
        snprintf(why, NETWORK_WHY_BYTES, "%.64s comes from %s instead", probe->nodes[edge->node].host, text);
}

static void explain_failure(const struct probe *probe, const struct network_edge *edge, int rail,
                            const struct endpoint_connection *want, char why[NETWORK_WHY_BYTES])
{
    char text[ADDRESS_TEXT_BYTES];
    address_text(address_on(probe, edge->node, rail), text);
    if (edge->connect)
        snprintf(why, NETWORK_WHY_BYTES, "no way to %s of %.50s: %s", text, probe->nodes[edge->node].host,
                 want->why != NULL ? want->why : "does not answer");
    else
        snprintf(why, NETWORK_WHY_BYTES, "%s of %.64s did not connect", text, probe->nodes[edge->node].host);
}

/* The first edge that failed gives the reason. Edges on which this node connects come first, as it knows
 * more about those than about edges on which it waits. */
static void judge_rail(const struct probe *probe, const struct network_edge *edges, int edge_count, int rail,
                       const struct endpoint_connection *connections, char why[NETWORK_WHY_BYTES])
{
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < edge_count && why[0] == 0; i++) {
            if (edges[i].connect != (pass == 0))
                continue;
            if (connections[i].fd < 0)
                explain_failure(probe, &edges[i], rail, &connections[i], why);
            else
                check_source(probe, &edges[i], rail, connections[i].fd, why);
        }
    }
}

int probe_run(struct probe *probe, struct endpoint *endpoint, const struct peer_table *peer_table,
              int64_t deadline_us, struct network_probe_result *result, struct hvd_error *err)
{
    struct network_edge edges[NETWORK_MAX_EDGES];
    int64_t now_us = clock_us();
    int64_t half_us = (deadline_us - now_us) / 2;
    *result = (struct network_probe_result){.why = {""}};
    int edge_count = network_probe_edges(probe->node, probe->plan->node_count, edges);
    int connection_count = edge_count * probe->plan->rail_count;
    if (edge_count > 0)
        probe->connections = calloc((size_t)connection_count + 1, sizeof(*probe->connections));
    if (probe->connections == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to try the network");
    probe->connection_count = connection_count;
    fill_connections(probe, edges, edge_count, probe->connections);
    struct endpoint_timeout timeout = {now_us + (half_us < PROBE_TIMEOUT_US ? half_us : PROBE_TIMEOUT_US),
                                       GRACE_US};
    int rc = endpoint_try_establish(endpoint, peer_table, probe->connections, connection_count, timeout, err);
    for (int rail = 0; rc == HVD_OK && rail < probe->plan->rail_count; rail++)
        judge_rail(probe, edges, edge_count, rail, probe->connections + (size_t)rail * (size_t)edge_count,
                   result->why[rail]);
    return rc;
}

void probe_close(struct probe *probe)
{
    for (int i = 0; i < probe->connection_count; i++)
        descriptors_close(&probe->connections[i].fd);
    free(probe->connections);
    probe->connections = NULL;
    probe->connection_count = 0;
}
