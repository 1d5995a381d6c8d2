/* probe.c: try the rails of a job: connect to other nodes on each of them, all at once. */
#include "net/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/address.h"

#define PROVE_US INT64_C(5000000) /* for any rail to work */
#define GRACE_US \
    INT64_C(1500000) /* for the other rails after one has: longer than TCP's first repeat of 1 s */

/* Both ends of a connection make the same of it. */
static uint32_t tag_of(int rail, bool ring)
{
    return (uint32_t)(2 * rail + ring);
}

static const struct in6_addr *address_on(const struct prover *prover, int node, int rail)
{
    const struct network_place *place = network_place(prover->plan, node, rail);
    return &prover->nodes[node].nics[place->nic].addresses[place->address].address;
}

static void want_all(const struct prover *prover, const struct network_edge *edges, int edge_count,
                     struct endpoint_want *wants)
{
    for (int rail = 0; rail < prover->plan->rail_count; rail++)
        for (int i = 0; i < edge_count; i++)
            wants[rail * edge_count + i] =
                (struct endpoint_want){.rank = prover->ranks[edges[i].node],
                                       .purpose = ENDPOINT_PROOF,
                                       .tag = tag_of(rail, edges[i].ring),
                                       .connect = edges[i].connect,
                                       .lane = rail,
                                       .address = address_on(prover, edges[i].node, rail),
                                       .fd = -1};
}

/* A connection goes out by the address of its rail, or a route leads through another interface. Who connects
 * looks at its own end, who accepts at the other. */
static void check_source(const struct prover *prover, const struct network_edge *edge, int rail, int fd,
                         char why[NETWORK_WHY_BYTES])
{
    struct in6_addr source;
    char text[ADDRESS_TEXT_BYTES];
    int from = edge->connect ? prover->node : edge->node;
    if (!address_of_end(fd, edge->connect, &source)) {
        snprintf(why, NETWORK_WHY_BYTES, "%.64s hung up", prover->nodes[edge->node].host);
        return;
    }
    if (network_owns(prover->plan, prover->nodes, from, rail, &source))
        return;
    address_text(&source, text);
    if (edge->connect)
        snprintf(why, NETWORK_WHY_BYTES, "a route leads to %.50s by way of %s instead",
                 prover->nodes[edge->node].host, text);
    else
        snprintf(why, NETWORK_WHY_BYTES, "%.64s comes from %s instead", prover->nodes[edge->node].host, text);
}

static void say_failed(const struct prover *prover, const struct network_edge *edge, int rail,
                       const struct endpoint_want *want, char why[NETWORK_WHY_BYTES])
{
    char text[ADDRESS_TEXT_BYTES];
    address_text(address_on(prover, edge->node, rail), text);
    if (edge->connect)
        snprintf(why, NETWORK_WHY_BYTES, "no way to %s of %.50s: %s", text, prover->nodes[edge->node].host,
                 want->why != NULL ? want->why : "does not answer");
    else
        snprintf(why, NETWORK_WHY_BYTES, "%s of %.64s did not connect", text, prover->nodes[edge->node].host);
}

/* The first edge that failed says why; where we connect we know more than where we wait. */
static void judge_rail(const struct prover *prover, const struct network_edge *edges, int edge_count,
                       int rail, const struct endpoint_want *wants, char why[NETWORK_WHY_BYTES])
{
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < edge_count && why[0] == 0; i++) {
            if (edges[i].connect != (pass == 0))
                continue;
            if (wants[i].fd < 0)
                say_failed(prover, &edges[i], rail, &wants[i], why);
            else
                check_source(prover, &edges[i], rail, wants[i].fd, why);
        }
    }
}

int prove(struct prover *prover, struct endpoint *endpoint, const struct roster *roster, int64_t deadline_us,
          struct network_proof *proof, struct hvd_error *err)
{
    struct network_edge edges[NETWORK_MAX_EDGES];
    int64_t limit_us = clock_us() + PROVE_US;
    *proof = (struct network_proof){.why = {""}};
    int edge_count = network_edges(prover->node, prover->plan->node_count, edges);
    int want_count = edge_count * prover->plan->rail_count;
    if (edge_count > 0)
        prover->wants = calloc((size_t)want_count + 1, sizeof(*prover->wants));
    if (prover->wants == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to try the network");
    prover->want_count = want_count;
    want_all(prover, edges, edge_count, prover->wants);
    struct endpoint_patience patience = {limit_us < deadline_us ? limit_us : deadline_us, GRACE_US};
    int rc = endpoint_try(endpoint, roster, prover->wants, want_count, patience, err);
    for (int rail = 0; rc == HVD_OK && rail < prover->plan->rail_count; rail++)
        judge_rail(prover, edges, edge_count, rail, prover->wants + (size_t)rail * (size_t)edge_count,
                   proof->why[rail]);
    return rc;
}

void prove_end(struct prover *prover)
{
    for (int i = 0; i < prover->want_count; i++)
        if (prover->wants[i].fd >= 0)
            close(prover->wants[i].fd);
    free(prover->wants);
    prover->wants = NULL;
    prover->want_count = 0;
}
