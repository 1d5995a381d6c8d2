/* nic_discovery.c: NIC discovery at a job's start: nodes publish their interfaces, probe them, and choose. */
#include "bootstrap/nic_discovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/node_card.h"
#include "bootstrap/start_report.h"
#include "net/address.h"

#define COMPONENT "network"

#define CLASH_BYTES 240

static int fail_no_memory(int count, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the network interfaces of %d nodes", count);
}

void nic_discovery_close(struct nic_discovery *nic_discovery)
{
    for (int i = 0; nic_discovery->nodes != NULL && i < nic_discovery->node_count; i++)
        nic_offer_free(&nic_discovery->nodes[i]);
    probe_close(&nic_discovery->probe);
    network_plan_close(&nic_discovery->plan);
    free(nic_discovery->nodes);
    free(nic_discovery->probe_results);
    free(nic_discovery->node_of_rank);
    free(nic_discovery->first_ranks);
    *nic_discovery = (struct nic_discovery){.node_count = 0};
}

static bool is_node_first(const struct nic_discovery *nic_discovery, const struct peer_table *peer_table)
{
    return nic_discovery->first_ranks[nic_discovery->node] == peer_table->rank;
}

static int fail_damaged(const struct nic_discovery *nic_discovery, int rc, int node, const char *what,
                        struct hvd_error *err)
{
    if (rc == HVD_ERR_NO_MEMORY)
        return fail_no_memory(nic_discovery->node_count, err);
    return error_set(err, rc, "what rank %d tells of its network (%s) is cut short or damaged",
                     nic_discovery->first_ranks[node], what);
}

/* ---- 1. Offer the interfaces ---- */

int nic_discovery_offer(const char *nic_filter, unsigned char bytes[NIC_OFFER_BYTES], size_t *lengthp,
                        struct hvd_error *err)
{
    struct network_node own = {.host = NULL};
    int rc = nic_offer_read(&own, nic_filter, err);
    if (rc == HVD_OK)
        *lengthp = nic_offer_encode(&own, bytes);
    nic_offer_free(&own);
    return rc;
}

/* ---- 2. Read the offers ---- */

static int find_networks(struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                         struct hvd_error *err)
{
    *nic_discovery = (struct nic_discovery){.node_of_rank = calloc((size_t)peer_table->size, sizeof(int)),
                                            .first_ranks = calloc((size_t)peer_table->size, sizeof(int))};
    if (nic_discovery->node_of_rank == NULL || nic_discovery->first_ranks == NULL)
        return fail_no_memory(peer_table->size, err);
    int count = peer_table_networks(peer_table, nic_discovery->node_of_rank, nic_discovery->first_ranks);
    if (count < 0)
        return fail_no_memory(peer_table->size, err);
    nic_discovery->node_count = count;
    nic_discovery->node = nic_discovery->node_of_rank[peer_table->rank];
    return HVD_OK;
}

/* Read what the node of the [entry]'s rank offers, if that rank acts for it. */
static int read_offer(struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                      const struct blob_entry *entry, struct hvd_error *err)
{
    struct node_card card;
    int node = nic_discovery->node_of_rank[entry->rank];
    if (nic_discovery->first_ranks[node] != entry->rank)
        return HVD_OK;
    int rc = node_card_of_entry(&card, peer_table->size, entry, err);
    if (rc != HVD_OK)
        return rc;
    nic_discovery->nodes[node].host = peer_table->peers[entry->rank].host;
    rc = nic_offer_decode(&nic_discovery->nodes[node], card.nics, card.nics_length);
    node_card_free(&card);
    return rc == HVD_OK ? HVD_OK : fail_damaged(nic_discovery, rc, node, "nics", err);
}

int nic_discovery_open(struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                       const struct blob_list *cards, struct hvd_error *err)
{
    struct blob_entry entry;
    size_t at = 0;
    int rc = find_networks(nic_discovery, peer_table, err);
    if (rc != HVD_OK || nic_discovery->node_count == 1)
        return rc;
    size_t count = (size_t)nic_discovery->node_count;
    nic_discovery->nodes = calloc(count, sizeof(*nic_discovery->nodes));
    nic_discovery->probe_results = calloc(count, sizeof(*nic_discovery->probe_results));
    if (nic_discovery->nodes == NULL || nic_discovery->probe_results == NULL)
        return fail_no_memory(nic_discovery->node_count, err);
    while (rc == HVD_OK && blob_list_next(cards, &at, &entry))
        rc = read_offer(nic_discovery, peer_table, &entry, err);
    return rc;
}

/* ---- 3. Probe the rails ---- */

int nic_discovery_probe(struct nic_discovery *nic_discovery, struct endpoint *endpoint,
                        const struct peer_table *peer_table, int64_t deadline_us, struct hvd_error *err)
{
    struct network_probe_result result = {.why = {""}};
    if (network_plan(nic_discovery->nodes, nic_discovery->node_count, &nic_discovery->plan) != HVD_OK)
        return fail_no_memory(nic_discovery->node_count, err);
    if (!is_node_first(nic_discovery, peer_table))
        return HVD_OK;
    nic_discovery->probe = (struct probe){.nodes = nic_discovery->nodes,
                                          .plan = &nic_discovery->plan,
                                          .ranks = nic_discovery->first_ranks,
                                          .node = nic_discovery->node};
    int rc = probe_run(&nic_discovery->probe, endpoint, peer_table, deadline_us, &result, err);
    if (rc == HVD_OK)
        nic_discovery->result_length =
            probe_result_encode(&result, nic_discovery->plan.rail_count, nic_discovery->result);
    return rc;
}

/* Read the result of the [entry]'s rank, if that rank acts for its node. */
static int read_result(struct nic_discovery *nic_discovery, const struct blob_entry *entry,
                       struct hvd_error *err)
{
    struct start_report report;
    int node = nic_discovery->node_of_rank[entry->rank];
    if (nic_discovery->first_ranks[node] != entry->rank)
        return HVD_OK;
    int rc = start_report_of_entry(&report, NIC_DISCOVERY_STEP, entry, err);
    if (rc != HVD_OK)
        return rc;
    rc = probe_result_decode(&nic_discovery->probe_results[node], nic_discovery->plan.rail_count,
                             report.result, report.result_length);
    return rc == HVD_OK ? HVD_OK : fail_damaged(nic_discovery, rc, node, "result", err);
}

static int read_results(struct nic_discovery *nic_discovery, const struct blob_list *reports,
                        struct hvd_error *err)
{
    struct blob_entry entry;
    size_t at = 0;
    int rc = HVD_OK;
    while (rc == HVD_OK && blob_list_next(reports, &at, &entry))
        rc = read_result(nic_discovery, &entry, err);
    return rc;
}

/* ---- 4. Choose the rails ---- */

/* The first node on which [rail] did not work, or -1. */
static int first_failed_node(const struct nic_discovery *nic_discovery, int rail)
{
    for (int i = 0; i < nic_discovery->node_count; i++)
        if (nic_discovery->probe_results[i].why[rail][0] != 0)
            return i;
    return -1;
}

static void write_table_line(void *arg, const char *text)
{
    log_write(arg, LOG_ERROR, COMPONENT, "%s", text);
}

/* Describe a rail: "10.0.0.0/24", or "eth0, by routers," with the name on rank 0's node. */
static const char *rail_text(const struct nic_discovery *nic_discovery, int rail,
                             char text[NETWORK_SUBNET_BYTES])
{
    const struct network_plan *plan = &nic_discovery->plan;
    if (plan->rails[rail].net.prefix_bits > 0)
        return network_subnet_text(&plan->rails[rail].net, text);
    snprintf(text, NETWORK_SUBNET_BYTES, "%s, by routers,",
             nic_discovery->nodes[0].nics[network_rail_nic(plan, 0, rail)->nic].name);
    return text;
}

/* "n2 and n3 have the same address 10.88.0.2"; false: the plan has found no such nodes. */
static bool clash_text(const struct nic_discovery *nic_discovery, char text[CLASH_BYTES])
{
    char address[ADDRESS_TEXT_BYTES];
    const struct network_clash *clash = &nic_discovery->plan.clash;
    if (clash->nodes[0] == clash->nodes[1])
        return false;
    address_text(&clash->address, address);
    snprintf(text, CLASH_BYTES, "%.64s and %.64s have the same address %s",
             nic_discovery->nodes[clash->nodes[0]].host, nic_discovery->nodes[clash->nodes[1]].host, address);
    return true;
}

static int fail_unconnected(const struct nic_discovery *nic_discovery, const struct peer_table *peer_table,
                            struct hvd_error *err)
{
    char net[NETWORK_SUBNET_BYTES], clash[CLASH_BYTES], reason[400];
    const struct network_plan *plan = &nic_discovery->plan;
    if (peer_table->rank == 0)
        network_table(nic_discovery->nodes, plan, nic_discovery->probe_results, write_table_line,
                      (void *)peer_table->log);
    if (plan->rail_count == 0 && clash_text(nic_discovery, clash)) {
        snprintf(reason, sizeof(reason), "%s, and all have no other subnet in common", clash);
    } else if (plan->rail_count == 0) {
        snprintf(reason, sizeof(reason),
                 "they have no subnet in common, and not all have a usable interface");
    } else {
        int node = first_failed_node(nic_discovery, 0);
        snprintf(reason, sizeof(reason), "%s failed on %.64s (%s)", rail_text(nic_discovery, 0, net),
                 nic_discovery->nodes[node].host, nic_discovery->probe_results[node].why[0]);
    }
    return error_set(err, HVD_ERR_TIMEOUT,
                     "no network joins the %d nodes: %s; see the table that rank 0 has written, and hvdinfo "
                     "nics on a node; --hvd-nics chooses interfaces",
                     nic_discovery->node_count, reason);
}

/* Replace the addresses of ranks on other nodes by those on the chosen rails. */
static void use_chosen_rails(const struct nic_discovery *nic_discovery, struct peer_table *peer_table)
{
    for (int rank = 0; rank < peer_table->size; rank++) {
        int node = nic_discovery->node_of_rank[rank];
        struct peer *peer = &peer_table->peers[rank];
        if (node == nic_discovery->node)
            continue;
        peer->address_count = 0;
        for (int i = 0; i < nic_discovery->choice.rail_count; i++) {
            const struct network_rail_nic *place =
                network_rail_nic(&nic_discovery->plan, node, nic_discovery->choice.rails[i]);
            peer->addresses[peer->address_count++] =
                nic_discovery->nodes[node].nics[place->nic].addresses[place->address].address;
        }
    }
}

_Static_assert(NETWORK_MAX_RAILS <= PEER_MAX_ADDRESSES, "a rank has an address on each rail");

static void log_choice(const struct nic_discovery *nic_discovery, const struct hvd_log *log)
{
    const struct network_plan *plan = &nic_discovery->plan;
    const struct network_choice *choice = &nic_discovery->choice;
    char net[NETWORK_SUBNET_BYTES], clash[CLASH_BYTES];
    for (int i = 0; i < choice->rail_count; i++) {
        int rail = choice->rails[i];
        log_write(log, LOG_INFO, COMPONENT, "%s joins the %d nodes; %s here",
                  rail_text(nic_discovery, rail, net), nic_discovery->node_count,
                  nic_discovery->nodes[0].nics[network_rail_nic(plan, 0, rail)->nic].name);
    }
    for (int rail = 0; rail < plan->rail_count; rail++) {
        int node = first_failed_node(nic_discovery, rail);
        if (node >= 0)
            log_write(log, LOG_WARN, COMPONENT,
                      "%s is not used, as it failed on %s: %s; --hvd-nics without it saves the trial",
                      rail_text(nic_discovery, rail, net), nic_discovery->nodes[node].host,
                      nic_discovery->probe_results[node].why[rail]);
    }
    if (clash_text(nic_discovery, clash))
        log_write(log, plan->clash.on_all ? LOG_DEBUG : LOG_WARN, COMPONENT,
                  "%s: the network of that address is not used; each node needs its own there", clash);
}

/* What users have set is kept; if it cannot work, one warning says so. */
static void warn_user_settings(const struct nic_discovery *nic_discovery, const struct hvd_log *log)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        char why[NETWORK_ENV_WHY_BYTES], first_why[NETWORK_ENV_WHY_BYTES] = "", more[40] = "";
        int first = -1, count = 0;
        for (int node = 0; node < nic_discovery->node_count; node++) {
            if (!network_env_is_wrong((enum nic_env_id)id, nic_discovery->nodes, &nic_discovery->plan,
                                      &nic_discovery->choice, node, why))
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
                      nic_env_names[id], nic_discovery->nodes[first].settings[id],
                      nic_discovery->nodes[first].host, more, first_why);
    }
}

int nic_discovery_choose(struct nic_discovery *nic_discovery, struct peer_table *peer_table,
                         const struct blob_list *reports, struct hvd_error *err)
{
    probe_close(&nic_discovery->probe);
    int rc = read_results(nic_discovery, reports, err);
    if (rc != HVD_OK)
        return rc;
    network_choose(&nic_discovery->plan, nic_discovery->probe_results, &nic_discovery->choice);
    if (nic_discovery->choice.rail_count == 0)
        return fail_unconnected(nic_discovery, peer_table, err);
    use_chosen_rails(nic_discovery, peer_table);
    if (peer_table->rank == 0) {
        log_choice(nic_discovery, peer_table->log);
        warn_user_settings(nic_discovery, peer_table->log);
    }
    return HVD_OK;
}
