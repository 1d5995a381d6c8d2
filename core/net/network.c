/* network.c: plans the rails that may join the nodes of a job, and chooses among those that work. */
#include "net/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/address.h"
#include "base/tree_shape.h"

static bool in_net(const struct in6_addr *address, const struct network_address *net)
{
    return address_in_subnet(address, &net->address, net->prefix_bits);
}

/* ---- Rails ---- */

static struct network_rail_nic *rail_nic_of(const struct network_plan *plan, int node, int rail)
{
    return &plan->rail_nics[(size_t)node * NETWORK_MAX_RAILS + (size_t)rail];
}

const struct network_rail_nic *network_rail_nic(const struct network_plan *plan, int node, int rail)
{
    return rail_nic_of(plan, node, rail);
}

static bool is_taken(const struct network_plan *plan, int node, int nic)
{
    for (int rail = 0; rail < plan->rail_count; rail++)
        if (rail_nic_of(plan, node, rail)->nic == nic)
            return true;
    return false;
}

static bool is_usable(const struct network_nic *nic)
{
    return nic->use != NETWORK_DROPPED && nic->address_count > 0 && nic->name[0] != 0;
}

/* Find the interface and address of [node] in a subnet, on an interface that is on no rail yet. */
static bool find_in_net(const struct network_plan *plan, const struct network_node *nodes, int node,
                        const struct network_address *net, struct network_rail_nic *rail_nic)
{
    for (int i = 0; i < nodes[node].nic_count; i++) {
        const struct network_nic *nic = &nodes[node].nics[i];
        if (!is_usable(nic) || is_taken(plan, node, i))
            continue;
        for (int k = 0; k < nic->address_count; k++) {
            if (nic->addresses[k].prefix_bits == net->prefix_bits &&
                in_net(&nic->addresses[k].address, net)) {
                *rail_nic = (struct network_rail_nic){i, k};
                return true;
            }
        }
    }
    return false;
}

static int compare_addresses(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct in6_addr));
}

static const struct in6_addr *address_on(const struct network_plan *plan, const struct network_node *nodes,
                                         int node, int rail)
{
    const struct network_rail_nic *rail_nic = rail_nic_of(plan, node, rail);
    return &nodes[node].nics[rail_nic->nic].addresses[rail_nic->address].address;
}

/* Find two nodes with the same address on [rail]. [room] holds an address for each node. */
static bool find_clash(const struct network_plan *plan, const struct network_node *nodes, int rail,
                       struct in6_addr *room, struct network_clash *clash)
{
    int count = plan->node_count, at = 1, found = 0;
    for (int node = 0; node < count; node++)
        room[node] = *address_on(plan, nodes, node, rail);
    qsort(room, (size_t)count, sizeof(*room), compare_addresses);
    while (at < count && compare_addresses(&room[at - 1], &room[at]) != 0)
        at++;
    if (at == count)
        return false;
    *clash = (struct network_clash){.address = room[at],
                                    .on_all = compare_addresses(&room[0], &room[count - 1]) == 0};
    for (int node = 0; found < 2; node++)
        if (compare_addresses(address_on(plan, nodes, node, rail), &clash->address) == 0)
            clash->nodes[found++] = node;
    return true;
}

/* An address that not all nodes have is a mistake, and more worth telling. */
static void note_clash(struct network_plan *plan, const struct network_clash *clash)
{
    if (plan->clash.nodes[0] == plan->clash.nodes[1] || (plan->clash.on_all && !clash->on_all))
        plan->clash = *clash;
}

/* All nodes have a rail_nic for the next rail. Add the rail, unless two nodes have the same address on it. */
static void add_rail(struct network_plan *plan, const struct network_node *nodes,
                     const struct network_address *net, struct in6_addr *room)
{
    struct network_rail rail = {.mbps = INT64_MAX};
    struct network_clash clash;
    if (net != NULL)
        rail.net = *net;
    if (find_clash(plan, nodes, plan->rail_count, room, &clash)) {
        note_clash(plan, &clash);
        return;
    }
    for (int node = 0; node < plan->node_count; node++) {
        const struct network_nic *nic = &nodes[node].nics[rail_nic_of(plan, node, plan->rail_count)->nic];
        rail.mbps = nic->mbps < rail.mbps ? nic->mbps : rail.mbps;
        rail.slow = rail.slow || nic->use == NETWORK_SLOW;
    }
    plan->rails[plan->rail_count++] = rail;
}

static bool try_subnet(struct network_plan *plan, const struct network_node *nodes,
                       const struct network_address *net, struct in6_addr *room)
{
    int before = plan->rail_count;
    for (int node = 0; node < plan->node_count; node++)
        if (!find_in_net(plan, nodes, node, net, rail_nic_of(plan, node, before)))
            return false;
    add_rail(plan, nodes, net, room);
    return plan->rail_count > before;
}

static void plan_subnets(struct network_plan *plan, const struct network_node *nodes, struct in6_addr *room)
{
    for (int i = 0; i < nodes[0].nic_count; i++) {
        const struct network_nic *nic = &nodes[0].nics[i];
        bool done = !is_usable(nic) || is_taken(plan, 0, i);
        for (int k = 0; !done && k < nic->address_count && plan->rail_count < NETWORK_MAX_RAILS; k++)
            done = try_subnet(plan, nodes, &nic->addresses[k], room);
    }
}

static bool find_nth_nic(const struct network_node *node, int nth, struct network_rail_nic *rail_nic)
{
    for (int i = 0; i < node->nic_count; i++) {
        if (is_usable(&node->nics[i]) && nth-- == 0) {
            *rail_nic = (struct network_rail_nic){i, 0};
            return true;
        }
    }
    return false;
}

static void plan_routes(struct network_plan *plan, const struct network_node *nodes, struct in6_addr *room)
{
    for (int nth = 0; plan->rail_count < NETWORK_MAX_RAILS; nth++) {
        for (int node = 0; node < plan->node_count; node++)
            if (!find_nth_nic(&nodes[node], nth, rail_nic_of(plan, node, plan->rail_count)))
                return;
        add_rail(plan, nodes, NULL, room);
    }
}

/* Fastest first; rails of equal speed keep their order. */
static void sort_rails(struct network_plan *plan)
{
    for (int i = 1; i < plan->rail_count; i++) {
        for (int at = i; at > 0 && plan->rails[at - 1].mbps < plan->rails[at].mbps; at--) {
            struct network_rail rail = plan->rails[at];
            plan->rails[at] = plan->rails[at - 1];
            plan->rails[at - 1] = rail;
            for (int node = 0; node < plan->node_count; node++) {
                struct network_rail_nic *rail_nics = rail_nic_of(plan, node, at - 1), rail_nic = rail_nics[0];
                rail_nics[0] = rail_nics[1];
                rail_nics[1] = rail_nic;
            }
        }
    }
}

int network_plan(const struct network_node *nodes, int node_count, struct network_plan *plan)
{
    *plan = (struct network_plan){.node_count = node_count};
    plan->rail_nics = calloc((size_t)node_count * NETWORK_MAX_RAILS, sizeof(*plan->rail_nics));
    struct in6_addr *room = calloc((size_t)node_count, sizeof(*room));
    if (plan->rail_nics == NULL || room == NULL) {
        free(room);
        network_plan_close(plan);
        return HVD_ERR_NO_MEMORY;
    }
    plan_subnets(plan, nodes, room);
    if (plan->rail_count == 0)
        plan_routes(plan, nodes, room);
    sort_rails(plan);
    free(room);
    return HVD_OK;
}

void network_plan_close(struct network_plan *plan)
{
    free(plan->rail_nics);
    *plan = (struct network_plan){.rail_count = 0};
}

bool network_owns_address(const struct network_plan *plan, const struct network_node *nodes, int node,
                          int rail, const struct in6_addr *address)
{
    const struct network_address *net = &plan->rails[rail].net;
    for (int i = 0; i < nodes[node].nic_count; i++) {
        const struct network_nic *nic = &nodes[node].nics[i];
        bool on_rail =
            i == rail_nic_of(plan, node, rail)->nic || (net->prefix_bits > 0 && in_net(address, net));
        for (int k = 0; on_rail && k < nic->address_count; k++)
            if (IN6_ARE_ADDR_EQUAL(&nic->addresses[k].address, address))
                return true;
    }
    return false;
}

/* ---- Who tries whom ---- */

int network_probe_edges(int node, int node_count, struct network_edge edges[NETWORK_MAX_EDGES])
{
    struct tree_shape shape;
    int next = (node + 1) % node_count, before = (node + node_count - 1) % node_count, count = 0;
    int *alone = malloc((size_t)node_count * sizeof(*alone));
    if (alone == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < node_count; i++)
        alone[i] = i;
    int rc = tree_shape_of_rank(alone, node_count, node, &shape, NULL);
    free(alone);
    if (rc != HVD_OK)
        return rc;
    edges[count++] = (struct network_edge){.node = next, .connect = true, .ring = true};
    edges[count++] = (struct network_edge){.node = before, .ring = true};
    if (shape.parent >= 0 && shape.parent != next)
        edges[count++] = (struct network_edge){.node = shape.parent, .connect = true};
    for (int i = 0; i < shape.child_count; i++)
        if (shape.child_ranks[i] != before)
            edges[count++] = (struct network_edge){.node = shape.child_ranks[i]};
    return count;
}

/* ---- The choice ---- */

static bool worked_on_all_nodes(const struct network_plan *plan,
                                const struct network_probe_result *probe_results, int rail)
{
    for (int node = 0; node < plan->node_count; node++)
        if (probe_results[node].why[rail][0] != 0)
            return false;
    return true;
}

void network_choose(const struct network_plan *plan, const struct network_probe_result *probe_results,
                    struct network_choice *choice)
{
    bool worked[NETWORK_MAX_RAILS];
    int64_t best = 0;
    *choice = (struct network_choice){.rail_count = 0};
    for (int rail = 0; rail < plan->rail_count; rail++) {
        worked[rail] = worked_on_all_nodes(plan, probe_results, rail);
        if (worked[rail] && !plan->rails[rail].slow)
            choice->rails[choice->rail_count++] = rail;
    }
    if (choice->rail_count > 0)
        return;
    for (int rail = 0; rail < plan->rail_count; rail++) {
        if (worked[rail] && plan->rails[rail].mbps * 2 >= best) {
            best = best == 0 ? plan->rails[rail].mbps : best;
            choice->rails[choice->rail_count++] = rail;
        }
    }
}

const char *network_subnet_text(const struct network_address *net, char text[NETWORK_SUBNET_BYTES])
{
    struct in6_addr first = net->address;
    char address[ADDRESS_TEXT_BYTES];
    for (int bit = net->prefix_bits; bit < 128; bit++)
        first.s6_addr[bit / 8] &= (unsigned char)~(0x80 >> bit % 8);
    address_text(&first, address);
    snprintf(text, NETWORK_SUBNET_BYTES, "%.45s/%d", address,
             IN6_IS_ADDR_V4MAPPED(&first) ? net->prefix_bits - 96 : net->prefix_bits);
    return text;
}
