/* nic_discovery.c: the network part of a job's start: tell the interfaces of each node, try them, and choose.
 */
#include "bootstrap/nic_discovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/nic_offer.h"

#define COMPONENT "network"

static int say_no_memory(int count, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the network interfaces of %d nodes", count);
}

int survey_open(struct survey *survey, const struct roster *roster, struct hvd_error *err)
{
    *survey = (struct survey){.node_of_rank = calloc((size_t)roster->size, sizeof(int)),
                              .first_ranks = calloc((size_t)roster->size, sizeof(int))};
    if (survey->node_of_rank == NULL || survey->first_ranks == NULL)
        return say_no_memory(roster->size, err);
    int count = roster_networks(roster, survey->node_of_rank, survey->first_ranks);
    if (count < 0)
        return say_no_memory(roster->size, err);
    survey->node_count = count;
    survey->node = survey->node_of_rank[roster->rank];
    return HVD_OK;
}

void survey_close(struct survey *survey)
{
    for (int i = 0; survey->nodes != NULL && i < survey->node_count; i++)
        candidates_free(&survey->nodes[i]);
    prove_end(&survey->prover);
    network_plan_close(&survey->plan);
    free(survey->nodes);
    free(survey->proofs);
    free(survey->node_of_rank);
    free(survey->first_ranks);
    *survey = (struct survey){.node_count = 0};
}

static bool acts(const struct survey *survey, const struct roster *roster)
{
    return survey->first_ranks[survey->node] == roster->rank;
}

/* ---- Blobs ---- */

static int put(const struct roster *roster, const struct wireup *wireup, const char *what, const void *bytes,
               size_t length, struct hvd_error *err)
{
    char name[64];
    snprintf(name, sizeof(name), "hvd.%u.%s", roster->epoch, what);
    return wireup->ops->put(wireup->state, name, bytes, length, err);
}

/* Where to read what others have put, and until when. */
struct shelf {
    const struct roster *roster;
    const struct wireup *wireup;
    int64_t deadline_us;
};

static int get(const struct shelf *shelf, int rank, const char *what, struct wireup_blob *blob,
               struct hvd_error *err)
{
    char name[64];
    snprintf(name, sizeof(name), "hvd.%u.%s", shelf->roster->epoch, what);
    return shelf->wireup->ops->get(shelf->wireup->state, rank, name, shelf->deadline_us, blob, err);
}

static int say_damaged(const struct survey *survey, int rc, int node, const char *what, struct hvd_error *err)
{
    if (rc == HVD_ERR_NO_MEMORY)
        return say_no_memory(survey->node_count, err);
    return error_set(err, rc, "what rank %d tells of its network (%s) is cut short or damaged",
                     survey->first_ranks[node], what);
}

/* ---- 1. What each has ---- */

int survey_offer(const struct survey *survey, const struct roster *roster, const struct wireup *wireup,
                 const char *asked, struct hvd_error *err)
{
    struct network_node own = {.host = NULL};
    unsigned char bytes[CANDIDATES_BYTES];
    if (!acts(survey, roster))
        return HVD_OK;
    int rc = candidates_read(&own, asked, err);
    if (rc == HVD_OK)
        rc = put(roster, wireup, "nics", bytes, candidates_encode(&own, bytes), err);
    candidates_free(&own);
    return rc;
}

static int read_nodes(struct survey *survey, const struct roster *roster, const struct wireup *wireup,
                      int64_t deadline_us, struct hvd_error *err)
{
    const struct shelf shelf = {roster, wireup, deadline_us};
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < survey->node_count; i++) {
        struct wireup_blob blob = {NULL, 0};
        survey->nodes[i].host = roster->peers[survey->first_ranks[i]].host;
        rc = get(&shelf, survey->first_ranks[i], "nics", &blob, err);
        if (rc != HVD_OK)
            break;
        rc = candidates_decode(&survey->nodes[i], blob.bytes, blob.length);
        free(blob.bytes);
        if (rc != HVD_OK)
            say_damaged(survey, rc, i, "nics", err);
    }
    return rc;
}

/* ---- 2. What works ---- */

int survey_prove(struct survey *survey, struct endpoint *endpoint, const struct roster *roster,
                 const struct wireup *wireup, int64_t deadline_us, struct hvd_error *err)
{
    struct network_proof proof = {.why = {""}};
    unsigned char bytes[PROOF_BYTES];
    survey->nodes = calloc((size_t)survey->node_count, sizeof(*survey->nodes));
    survey->proofs = calloc((size_t)survey->node_count, sizeof(*survey->proofs));
    if (survey->nodes == NULL || survey->proofs == NULL)
        return say_no_memory(survey->node_count, err);
    int rc = read_nodes(survey, roster, wireup, deadline_us, err);
    if (rc == HVD_OK && network_plan(survey->nodes, survey->node_count, &survey->plan) != HVD_OK)
        rc = say_no_memory(survey->node_count, err);
    if (rc != HVD_OK || !acts(survey, roster))
        return rc;
    survey->prover = (struct prover){
        .nodes = survey->nodes, .plan = &survey->plan, .ranks = survey->first_ranks, .node = survey->node};
    rc = prove(&survey->prover, endpoint, roster, deadline_us, &proof, err);
    if (rc == HVD_OK)
        rc = put(roster, wireup, "proof", bytes, proof_encode(&proof, survey->plan.rail_count, bytes), err);
    return rc;
}

static int read_proofs(struct survey *survey, const struct roster *roster, const struct wireup *wireup,
                       int64_t deadline_us, struct hvd_error *err)
{
    const struct shelf shelf = {roster, wireup, deadline_us};
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < survey->node_count; i++) {
        struct wireup_blob blob = {NULL, 0};
        rc = get(&shelf, survey->first_ranks[i], "proof", &blob, err);
        if (rc != HVD_OK)
            break;
        rc = proof_decode(&survey->proofs[i], survey->plan.rail_count, blob.bytes, blob.length);
        free(blob.bytes);
        if (rc != HVD_OK)
            say_damaged(survey, rc, i, "proof", err);
    }
    return rc;
}

/* ---- 3. What is used ---- */

/* The first node where [rail] did not work, or -1. */
static int first_failed(const struct survey *survey, int rail)
{
    for (int i = 0; i < survey->node_count; i++)
        if (survey->proofs[i].why[rail][0] != 0)
            return i;
    return -1;
}

static void write_table_line(void *arg, const char *text)
{
    log_write(arg, LOG_ERROR, COMPONENT, "%s", text);
}

/* "10.0.0.0/24", or "eth0, by routers," of rank 0's node. */
static const char *rail_text(const struct survey *survey, int rail, char text[NETWORK_NET_BYTES])
{
    const struct network_plan *plan = &survey->plan;
    if (plan->rails[rail].net.prefix_bits > 0)
        return network_net_text(&plan->rails[rail].net, text);
    snprintf(text, NETWORK_NET_BYTES, "%s, by routers,",
             survey->nodes[0].nics[network_place(plan, 0, rail)->nic].name);
    return text;
}

static int say_apart(const struct survey *survey, const struct roster *roster, struct hvd_error *err)
{
    char net[NETWORK_NET_BYTES], reason[400];
    const struct network_plan *plan = &survey->plan;
    if (roster->rank == 0)
        network_table(survey->nodes, plan, survey->proofs, write_table_line, (void *)roster->log);
    if (plan->rail_count == 0) {
        snprintf(reason, sizeof(reason),
                 "they have no subnet in common, and not all have a usable interface");
    } else {
        int node = first_failed(survey, 0);
        snprintf(reason, sizeof(reason), "%s failed on %.64s (%s)", rail_text(survey, 0, net),
                 survey->nodes[node].host, survey->proofs[node].why[0]);
    }
    return error_set(err, HVD_ERR_TIMEOUT,
                     "no network joins the %d nodes: %s; see the table that rank 0 has written, and hvdinfo "
                     "nics on a node; --hvd-nics chooses interfaces",
                     survey->node_count, reason);
}

/* Where the ranks of other nodes are reached from now on. */
static void adopt(const struct survey *survey, struct roster *roster)
{
    for (int rank = 0; rank < roster->size; rank++) {
        int node = survey->node_of_rank[rank];
        struct roster_peer *peer = &roster->peers[rank];
        if (node == survey->node)
            continue;
        peer->address_count = 0;
        for (int i = 0; i < survey->choice.rail_count; i++) {
            const struct network_place *place = network_place(&survey->plan, node, survey->choice.rails[i]);
            peer->addresses[peer->address_count++] =
                survey->nodes[node].nics[place->nic].addresses[place->address].address;
        }
    }
}

_Static_assert(NETWORK_MAX_RAILS <= ROSTER_MAX_ADDRESSES, "a rank has an address on each rail");

static void say_choice(const struct survey *survey, const struct hvd_log *log)
{
    const struct network_plan *plan = &survey->plan;
    const struct network_choice *choice = &survey->choice;
    char net[NETWORK_NET_BYTES];
    for (int i = 0; i < choice->rail_count; i++) {
        int rail = choice->rails[i];
        log_write(log, LOG_INFO, COMPONENT, "%s joins the %d nodes; %s here", rail_text(survey, rail, net),
                  survey->node_count, survey->nodes[0].nics[network_place(plan, 0, rail)->nic].name);
    }
    for (int rail = 0; rail < plan->rail_count; rail++) {
        int node = first_failed(survey, rail);
        if (node >= 0)
            log_write(log, LOG_WARN, COMPONENT,
                      "%s is not used, as it failed on %s: %s; --hvd-nics without it saves the trial",
                      rail_text(survey, rail, net), survey->nodes[node].host, survey->proofs[node].why[rail]);
    }
}

/* What users have set wins; what of it cannot work is told once. */
static void check_settings(const struct survey *survey, const struct hvd_log *log)
{
    for (int id = 0; id < SETTING_COUNT; id++) {
        char why[SETTING_WHY_BYTES], first_why[SETTING_WHY_BYTES] = "", more[40] = "";
        int first = -1, count = 0;
        for (int node = 0; node < survey->node_count; node++) {
            if (!setting_is_wrong((enum setting_id)id, survey->nodes, &survey->plan, &survey->choice, node,
                                  why))
                continue;
            if (count++ == 0) {
                first = node;
                memcpy(first_why, why, sizeof(first_why));
            }
        }
        if (count > 1)
            snprintf(more, sizeof(more), " and %d more", count - 1);
        if (count > 0)
            log_write(log, LOG_WARN, COMPONENT, "%s=%s on %s%s %s; unset it, and hvd sets what it has proven",
                      setting_variables[id], survey->nodes[first].settings[id], survey->nodes[first].host,
                      more, first_why);
    }
}

int survey_settle(struct survey *survey, struct roster *roster, const struct wireup *wireup,
                  int64_t deadline_us, struct hvd_error *err)
{
    prove_end(&survey->prover);
    int rc = read_proofs(survey, roster, wireup, deadline_us, err);
    if (rc != HVD_OK)
        return rc;
    network_choose(&survey->plan, survey->proofs, &survey->choice);
    if (survey->choice.rail_count == 0)
        return say_apart(survey, roster, err);
    adopt(survey, roster);
    if (roster->rank == 0) {
        say_choice(survey, roster->log);
        check_settings(survey, roster->log);
    }
    return HVD_OK;
}
