/* network_table.c: the table of nodes and interfaces, which explains why no network joins the nodes. */
#include "net/network.h"

#include <stdio.h>
#include <string.h>

#include "net/address.h"

struct table {
    const struct network_node *nodes;
    const struct network_plan *plan;
    const struct network_probe_result *probe_results;
    void (*line)(void *arg, const char *text);
    void *arg;
    int line_count, row_count;
};

/* The rail of an interface, or -1. */
static int rail_of(const struct table *table, int node, int nic)
{
    for (int rail = 0; rail < table->plan->rail_count; rail++)
        if (network_rail_nic(table->plan, node, rail)->nic == nic)
            return rail;
    return -1;
}

/* Does [node] have [address] in that subnet, or any address there if [address] is NULL? */
static bool has_in_net(const struct network_node *node, const struct network_address *net,
                       const struct in6_addr *address)
{
    for (int i = 0; i < node->nic_count; i++) {
        const struct network_nic *nic = &node->nics[i];
        for (int k = 0; nic->use != NETWORK_DROPPED && k < nic->address_count; k++) {
            const struct network_address *other = &nic->addresses[k];
            if (other->prefix_bits == net->prefix_bits &&
                address_in_subnet(&other->address, &net->address, net->prefix_bits) &&
                (address == NULL || IN6_ARE_ADDR_EQUAL(&other->address, address)))
                return true;
        }
    }
    return false;
}

/* Why a usable interface is on no rail. */
static void explain_no_rail(const struct table *table, int node, const struct network_nic *nic,
                            char why[NETWORK_WHY_BYTES])
{
    const struct network_address *net = &nic->addresses[0];
    char text[NETWORK_SUBNET_BYTES];
    network_subnet_text(net, text);
    for (int other = 0; other < table->plan->node_count; other++) {
        if (!has_in_net(&table->nodes[other], net, NULL)) {
            snprintf(why, NETWORK_WHY_BYTES, "%.64s has nothing in %s", table->nodes[other].host, text);
            return;
        }
    }
    for (int other = 0; other < table->plan->node_count; other++) {
        if (other != node && has_in_net(&table->nodes[other], net, &net->address)) {
            snprintf(why, NETWORK_WHY_BYTES, "%.64s has the same address", table->nodes[other].host);
            return;
        }
    }
    snprintf(why, NETWORK_WHY_BYTES, "not tried: nodes differ in %s, or there are more than %d", text,
             NETWORK_MAX_RAILS);
}

/* Why a rail that was tried is not used on this node. */
static void explain_rail(const struct table *table, int node, int rail, char why[NETWORK_WHY_BYTES])
{
    if (table->probe_results[node].why[rail][0] != 0) {
        snprintf(why, NETWORK_WHY_BYTES, "%s", table->probe_results[node].why[rail]);
        return;
    }
    snprintf(why, NETWORK_WHY_BYTES, "works here");
    for (int other = 0; other < table->plan->node_count; other++) {
        if (table->probe_results[other].why[rail][0] != 0) {
            snprintf(why, NETWORK_WHY_BYTES, "works here, but not on %.64s", table->nodes[other].host);
            return;
        }
    }
}

static void add_line(struct table *table, const char *text)
{
    table->row_count++;
    if (table->line_count == NETWORK_TABLE_LINES - 2)
        return;
    table->line_count++;
    table->line(table->arg, text);
}

static void add_row(struct table *table, int node, int index)
{
    const struct network_nic *nic = &table->nodes[node].nics[index];
    int rail = rail_of(table, node, index);
    if (nic->use == NETWORK_DROPPED && nic->address_count == 0) {
        table->row_count++;
        return;
    }
    char address[ADDRESS_TEXT_BYTES] = "-", why[NETWORK_WHY_BYTES], text[400];
    if (nic->address_count > 0)
        address_text(
            &nic->addresses[rail < 0 ? 0 : network_rail_nic(table->plan, node, rail)->address].address,
            address);
    if (rail >= 0)
        explain_rail(table, node, rail, why);
    else if (nic->use == NETWORK_DROPPED)
        snprintf(why, sizeof(why), "%s", nic->why);
    else if (nic->address_count == 0)
        snprintf(why, sizeof(why), "has no address");
    else
        explain_no_rail(table, node, nic, why);
    snprintf(text, sizeof(text), "%-12.64s  %-12s  %-16s  %s", table->nodes[node].host,
             nic->name[0] != 0 ? nic->name : nic->verbs, address, why);
    add_line(table, text);
}

/* The order of the table's rows. 0: tried, and failed on this node; 1: tried, and worked here; 2: usable,
 * but not tried; 3: not usable. */
static int class_of(const struct table *table, int node, int index)
{
    int rail = rail_of(table, node, index);
    if (rail >= 0)
        return table->probe_results[node].why[rail][0] != 0 ? 0 : 1;
    return table->nodes[node].nics[index].use != NETWORK_DROPPED ? 2 : 3;
}

void network_table(const struct network_node *nodes, const struct network_plan *plan,
                   const struct network_probe_result *probe_results,
                   void (*line)(void *arg, const char *text), void *arg)
{
    struct table table = {
        .nodes = nodes, .plan = plan, .probe_results = probe_results, .line = line, .arg = arg};
    char text[100];
    snprintf(text, sizeof(text), "%-12s  %-12s  %-16s  %s", "node", "interface", "address", "why not");
    line(arg, text);
    for (int class = 0; class < 4; class ++)
        for (int node = 0; node < plan->node_count; node++)
            for (int i = 0; i < nodes[node].nic_count; i++)
                if (class_of(&table, node, i) == class)
                    add_row(&table, node, i);
    int more = table.row_count - table.line_count;
    for (int node = 0; node < plan->node_count; node++)
        more += nodes[node].left_out;
    if (more == 0)
        return;
    snprintf(text, sizeof(text), "and %d more interfaces", more);
    line(arg, text);
}
