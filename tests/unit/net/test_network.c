/* test_network.c: which interfaces join the nodes: what is planned for nodes of all kinds, who tries whom,
 * and what is chosen from what came of it. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "net/nic_offer.h"
#include "net/network.h"
#include "base/tree_shape.h"

#define MAX_NODES 4
#define MANY      4096

/* An interface; %d in its address is the node's number from 1. */
struct interface {
    const char *name;
    const char *addresses[2]; /* "10.0.0.%d/24" */
    int64_t mbps;             /* 0: unknown */
    int only;                 /* on so many first nodes; 0: on all */
    enum nic_link link;
    const char *master, *verbs;
};

static struct network_node nodes[MANY];
static struct network_plan plan;
static struct network_probe_result probe_results[MAX_NODES];
static struct network_choice choice;
static const char *const hosts[MAX_NODES] = {"n1", "n2", "n3", "n4"};

static void read_address(const char *format, int number, struct nic_address *address)
{
    char text[80];
    const char *place = strstr(format, "%d");
    if (place == NULL)
        snprintf(text, sizeof(text), "%s", format);
    else
        snprintf(text, sizeof(text), "%.*s%d%s", (int)(place - format), format, number, place + 2);
    char *slash = strchr(text, '/');
    *slash = 0;
    address->family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    address->prefix = (int)strtol(slash + 1, NULL, 10);
    ck_assert_int_eq(inet_pton(address->family, text, address->bytes), 1);
}

static void make_node(struct network_node *node, const struct interface *interfaces, int number,
                      const char *asked)
{
    struct nic nics[16] = {{.port = 0}};
    int count = 0;
    for (const struct interface *i = interfaces; i->name != NULL; i++) {
        if (i->only > 0 && number > i->only)
            continue;
        struct nic *nic = &nics[count++];
        snprintf(nic->netdev, sizeof(nic->netdev), "%s", i->name);
        snprintf(nic->verbs, sizeof(nic->verbs), "%s", i->verbs == NULL ? "" : i->verbs);
        snprintf(nic->master, sizeof(nic->master), "%s", i->master == NULL ? "" : i->master);
        nic->port = i->verbs == NULL ? 0 : 1;
        nic->link = i->link;
        nic->mbps = i->mbps;
        nic->addresses_known = true;
        for (int k = 0; k < 2 && i->addresses[k] != NULL; k++)
            read_address(i->addresses[k], number, &nic->addresses[nic->address_count++]);
    }
    ck_assert_int_eq(nics_select(nics, count, asked, NULL), HVD_OK);
    ck_assert_int_eq(nic_offer_of_nics(node, nics, count), HVD_OK);
}

static void make_nodes(const struct interface *interfaces, int count, const char *asked)
{
    for (int i = 0; i < count; i++) {
        make_node(&nodes[i], interfaces, i + 1, asked);
        nodes[i].host = hosts[i];
    }
    ck_assert_int_eq(network_plan(nodes, count, &plan), HVD_OK);
}

static void end(void)
{
    for (int i = 0; i < plan.node_count; i++)
        nic_offer_free(&nodes[i]);
    network_plan_close(&plan);
}

/* "eth0 10.0.0.0/24, eth1 -": the rails, by the interfaces of [node]. */
static const char *rails_text(int node)
{
    static char text[600];
    char net[NETWORK_SUBNET_BYTES];
    text[0] = 0;
    for (int rail = 0; rail < plan.rail_count; rail++) {
        size_t used = strlen(text);
        bool routed = plan.rails[rail].net.prefix_bits == 0;
        snprintf(text + used, sizeof(text) - used, "%s%s %s", used > 0 ? ", " : "",
                 nodes[node].nics[network_rail_nic(&plan, node, rail)->nic].name,
                 routed ? "-" : network_subnet_text(&plan.rails[rail].net, net));
    }
    return text;
}

/* ---- What is planned ---- */

#define DOCKER                                                                 \
    {                                                                          \
        .name = "docker0", .addresses = {"172.17.0.1/16"}, .link = NIC_LINK_UP \
    }

static const struct {
    const char *what, *asked;
    struct interface interfaces[6];
    const char *rails; /* of n1 */
} plans[] = {
    {.what = "bridges of containers are the same everywhere",
     .interfaces = {DOCKER, {.name = "eth0", .addresses = {"10.0.0.%d/24"}}},
     .rails = "eth0 10.0.0.0/24"},
    {.what = "a bridge with a name of its own and one address everywhere",
     .interfaces = {{.name = "lan0", .addresses = {"192.168.122.1/24"}},
                    {.name = "eth0", .addresses = {"10.0.0.%d/24"}}},
     .rails = "eth0 10.0.0.0/24"},
    {.what = "private networks of one number that may not reach each other are tried",
     .interfaces = {{.name = "usb0", .addresses = {"192.168.0.%d/24"}},
                    {.name = "eth0", .addresses = {"10.0.0.%d/24"}}},
     .rails = "eth0 10.0.0.0/24, usb0 192.168.0.0/24"},
    {.what = "a dead interface",
     .interfaces = {{.name = "eth0", .addresses = {"10.0.0.%d/24"}, .link = NIC_LINK_DOWN},
                    {.name = "eth1", .addresses = {"10.1.0.%d/24"}, .link = NIC_LINK_UP}},
     .rails = "eth1 10.1.0.0/24"},
    {.what = "an interface that only some nodes have",
     .interfaces = {{.name = "ib0", .addresses = {"10.2.0.%d/24"}, .mbps = 100000, .only = 3},
                    {.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 100000}},
     .rails = "eth0 10.0.0.0/24"},
    {.what = "only some nodes have the fast one: the slow one joins all",
     .interfaces = {{.name = "ib0", .addresses = {"10.2.0.%d/24"}, .mbps = 100000, .only = 1},
                    {.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 1000}},
     .rails = "eth0 10.0.0.0/24"},
    {.what = "a bond is used, and not what it is made of",
     .interfaces = {{.name = "eth0", .addresses = {"10.5.0.%d/24"}, .mbps = 25000, .master = "bond0"},
                    {.name = "eth1", .mbps = 25000, .master = "bond0"},
                    {.name = "bond0", .addresses = {"10.0.0.%d/24"}, .mbps = 50000}},
     .rails = "bond0 10.0.0.0/24"},
    {.what = "two rails, fastest first",
     .interfaces = {{.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 100000},
                    {.name = "eth1", .addresses = {"10.1.0.%d/24"}, .mbps = 200000}},
     .rails = "eth1 10.1.0.0/24, eth0 10.0.0.0/24"},
    {.what = "two cards in one subnet are two rails",
     .interfaces = {{.name = "eth0", .addresses = {"10.0.0.%d/16"}},
                    {.name = "eth1", .addresses = {"10.0.1.%d/16"}}},
     .rails = "eth0 10.0.0.0/16, eth1 10.0.0.0/16"},
    {.what = "IPv6 only",
     .interfaces = {{.name = "eth0", .addresses = {"fe80::%d/64", "fd00:1::%d/64"}}},
     .rails = "eth0 fd00:1::/64"},
    {.what = "the same numbers with other masks are other subnets",
     .interfaces = {{.name = "eth0", .addresses = {"10.0.0.%d/24"}, .only = 2},
                    {.name = "eth1", .addresses = {"10.1.0.%d/24"}}},
     .rails = "eth1 10.1.0.0/24"},
    {.what = "no subnet in common: by routers, in the order of speed",
     .interfaces = {{.name = "eth0", .addresses = {"10.%d.0.1/24"}, .mbps = 10000},
                    {.name = "eth1", .addresses = {"10.1%d.0.1/24"}, .mbps = 20000}},
     .rails = "eth1 -, eth0 -"},
    {.what = "addresses of the whole, as clouds give them",
     .interfaces = {{.name = "eth0", .addresses = {"10.0.0.%d/32"}}},
     .rails = "eth0 -"},
    {.what = "asked for by name, also where it is slow",
     .asked = "eth0",
     .interfaces = {{.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 1000},
                    {.name = "ib0", .addresses = {"10.2.0.%d/24"}, .mbps = 100000}},
     .rails = "eth0 10.0.0.0/24"},
    {.what = "asked for by subnet",
     .asked = "10.2.0.0/16",
     .interfaces = {{.name = "eth0", .addresses = {"10.0.0.%d/24"}},
                    {.name = "ib0", .addresses = {"10.2.0.%d/24"}}},
     .rails = "ib0 10.2.0.0/24"},
    {.what = "nothing at all", .interfaces = {DOCKER}, .rails = ""},
    {.what = "RDMA without an address does not carry TCP",
     .interfaces = {{.name = "", .verbs = "mlx5_0", .mbps = 200000, .link = NIC_LINK_UP},
                    {.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 1000}},
     .rails = "eth0 10.0.0.0/24"},
};

START_TEST(rails_are_what_all_nodes_share)
{
    make_nodes(plans[_i].interfaces, MAX_NODES, plans[_i].asked);
    ck_assert_msg(strcmp(rails_text(0), plans[_i].rails) == 0, "%s: %s", plans[_i].what, rails_text(0));
    end();
}
END_TEST

/* Names may differ; so may what is fastest. */
START_TEST(nodes_may_call_interfaces_otherwise)
{
    static const struct interface first[] = {{.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 10000},
                                             {.name = "eth1", .addresses = {"10.1.0.%d/24"}, .mbps = 25000},
                                             {.name = NULL}};
    static const struct interface second[] = {{.name = "enp3", .addresses = {"10.0.0.%d/24"}, .mbps = 10000},
                                              {.name = "eth0", .addresses = {"10.1.0.%d/24"}, .mbps = 5000},
                                              {.name = NULL}};
    make_node(&nodes[0], first, 1, NULL);
    make_node(&nodes[1], second, 2, NULL);
    ck_assert_int_eq(network_plan(nodes, 2, &plan), HVD_OK);
    ck_assert_str_eq(rails_text(0), "eth0 10.0.0.0/24, eth1 10.1.0.0/24");
    ck_assert_str_eq(rails_text(1), "enp3 10.0.0.0/24, eth0 10.1.0.0/24");
    ck_assert_int_eq(plan.rails[0].mbps, 10000);
    ck_assert_int_eq(plan.rails[1].mbps, 5000);
    end();
}
END_TEST

#define LAN                                                 \
    {                                                       \
        .name = "lan0", .addresses = { "192.168.122.1/24" } \
    }
#define IB                                             \
    {                                                  \
        .name = "ib0", .addresses = { "10.2.0.%d/24" } \
    }

static const struct {
    struct interface interfaces[4];
    int twin; /* the node, from 1, that has the addresses of n2; 0: none has */
    int first, second;
    bool on_all;
    int rails;
} clashes[] = {
    {.interfaces = {IB}, .rails = 1},
    {.interfaces = {IB}, .twin = 4, .first = 1, .second = 3},
    {.interfaces = {IB}, .twin = 1, .first = 0, .second = 1},
    {.interfaces = {LAN, IB}, .first = 0, .second = 1, .on_all = true, .rails = 1},
    {.interfaces = {LAN, IB}, .twin = 4, .first = 1, .second = 3},
};

START_TEST(two_nodes_of_equal_addresses_are_found)
{
    make_nodes(clashes[_i].interfaces, MAX_NODES, NULL);
    if (clashes[_i].twin > 0) {
        struct network_node *twin = &nodes[clashes[_i].twin - 1];
        network_plan_close(&plan);
        nic_offer_free(twin);
        make_node(twin, clashes[_i].interfaces, 2, NULL);
        ck_assert_int_eq(network_plan(nodes, MAX_NODES, &plan), HVD_OK);
    }
    ck_assert_int_eq(plan.rail_count, clashes[_i].rails);
    ck_assert_int_eq(plan.clash.nodes[0], clashes[_i].first);
    ck_assert_int_eq(plan.clash.nodes[1], clashes[_i].second);
    ck_assert_int_eq(plan.clash.on_all, clashes[_i].on_all);
    end();
}
END_TEST

static struct in6_addr address_of(const char *text)
{
    struct in6_addr address;
    ck_assert_int_eq(inet_pton(AF_INET6, text, &address), 1);
    return address;
}

START_TEST(a_source_belongs_to_its_rail)
{
    static const struct interface interfaces[] = {
        {.name = "eth0", .addresses = {"10.0.0.%d/24", "10.7.0.%d/24"}},
        {.name = "eth1", .addresses = {"10.1.0.%d/24"}},
        {.name = NULL}};
    make_nodes(interfaces, 2, NULL);
    struct in6_addr right = address_of("::ffff:10.0.0.2"), other = address_of("::ffff:10.1.0.2"),
                    foreign = address_of("::ffff:10.0.0.1"), second = address_of("::ffff:10.7.0.2");
    ck_assert(network_owns_address(&plan, nodes, 1, 0, &right));
    ck_assert(network_owns_address(&plan, nodes, 1, 0, &second)); /* of the same interface */
    ck_assert(!network_owns_address(&plan, nodes, 1, 0, &other));
    ck_assert(network_owns_address(&plan, nodes, 1, 1, &other));
    ck_assert(!network_owns_address(&plan, nodes, 1, 0, &foreign));
    end();
}
END_TEST

/* ---- Who tries whom ---- */

/* Each connection has two ends, none is made twice, and few end at one node. */
static void check_edges(int count)
{
    struct network_edge edges[NETWORK_MAX_EDGES], others[NETWORK_MAX_EDGES];
    int connections = 0;
    for (int node = 0; node < count; node++) {
        int edge_count = network_probe_edges(node, count, edges);
        ck_assert_int_ge(edge_count, 2);
        ck_assert_int_le(edge_count, 2 + 1 + TREE_LEADER_RADIX);
        for (int i = 0; i < edge_count; i++) {
            int met = 0, other_count = network_probe_edges(edges[i].node, count, others);
            for (int k = 0; k < other_count; k++)
                met += others[k].node == node && others[k].connect != edges[i].connect &&
                       others[k].ring == edges[i].ring;
            ck_assert_int_eq(met, 1);
            ck_assert_int_ne(edges[i].node, node);
            for (int k = 0; k < i; k++)
                ck_assert(edges[k].node != edges[i].node || edges[k].connect != edges[i].connect);
            connections += edges[i].connect;
        }
    }
    ck_assert_int_le(connections, 2 * count - 1); /* the ring's, and the tree's but those that are both */
    ck_assert_int_ge(connections, count);
}

START_TEST(connections_have_two_ends)
{
    for (int count = 2; count < 80; count++)
        check_edges(count);
}
END_TEST

/* What 4096 nodes cost: all connections at once, few at each, and a tree of few levels. */
START_TEST(many_nodes_try_few_each)
{
    static const struct interface interfaces[] = {{.name = "eth0", .addresses = {"10.0.0.1/16"}},
                                                  {.name = "docker0", .addresses = {"172.17.0.1/16"}},
                                                  {.name = "eth1", .addresses = {"10.1.0.1/16"}},
                                                  {.name = NULL}};
    struct network_edge edges[NETWORK_MAX_EDGES];
    int connections = 0, most = 0, depth = 0;
    for (int i = 0; i < MANY; i++) {
        make_node(&nodes[i], interfaces, 1, NULL);
        for (int nic = 0; nic < nodes[i].nic_count; nic++) {
            unsigned char *bytes = nodes[i].nics[nic].addresses[0].address.s6_addr;
            bytes[14] = nodes[i].nics[nic].use == NETWORK_KEPT ? (unsigned char)(i >> 8) : 0;
            bytes[15] = nodes[i].nics[nic].use == NETWORK_KEPT ? (unsigned char)i : 1;
        }
    }
    ck_assert_int_eq(network_plan(nodes, MANY, &plan), HVD_OK);
    ck_assert_str_eq(rails_text(MANY - 1), "eth0 10.0.0.0/16, eth1 10.1.0.0/16");
    for (int i = 0; i < MANY; i++) {
        int count = network_probe_edges(i, MANY, edges), ups = 0;
        most = count > most ? count : most;
        for (int k = 0; k < count; k++)
            connections += edges[k].connect;
        for (int at = i; at != 0; ups++) {
            int parent = -1;
            count = network_probe_edges(at, MANY, edges);
            for (int k = 0; k < count; k++)
                if (edges[k].connect && !edges[k].ring)
                    parent = edges[k].node;
            ck_assert_int_lt(parent, at);
            at = parent;
            if (i % 64 != 63) /* enough of them; each level costs */
                break;
        }
        depth = ups > depth ? ups : depth;
    }
    fprintf(stderr, "# 4096 nodes: %d connections a rail, at most %d at a node, depth %d\n", connections,
            most, depth);
    ck_assert_int_eq(connections, MANY + MANY - 1);
    ck_assert_int_le(most, 2 + 1 + TREE_LEADER_RADIX);
    ck_assert_int_le(depth, 5);
    end();
}
END_TEST

/* ---- What is chosen ---- */

static const struct interface three[] = {{.name = "ib0", .addresses = {"10.2.0.%d/24"}, .mbps = 200000},
                                         {.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 100000},
                                         {.name = "eth1", .addresses = {"10.1.0.%d/24"}, .mbps = 1000},
                                         {.name = NULL}};

static const struct {
    const char *failed; /* "ib0@2 eth0@0": on which node */
    int count;
    int rails[3];
} choices[] = {
    {"", 2, {0, 1}},       {"ib0@2", 1, {1}},        {"eth0@0", 1, {0}},
    {"eth1@1", 2, {0, 1}}, {"ib0@1 eth0@3", 1, {2}}, {"ib0@1 eth0@3 eth1@0", 0, {0}},
};

START_TEST(what_failed_anywhere_is_not_used)
{
    make_nodes(three, MAX_NODES, NULL);
    memset(probe_results, 0, sizeof(probe_results));
    for (const char *at = choices[_i].failed; at != NULL && *at != 0; at = strchr(at + 1, ' ')) {
        char name[16] = "";
        int node = 0;
        ck_assert_int_eq(sscanf(at, " %15[^@]@%d", name, &node), 2);
        snprintf(probe_results[node].why[strcmp(name, "ib0") == 0    ? 0
                                         : strcmp(name, "eth0") == 0 ? 1
                                                                     : 2],
                 NETWORK_WHY_BYTES, "no answer");
    }
    network_choose(&plan, probe_results, &choice);
    ck_assert_int_eq(choice.rail_count, choices[_i].count);
    for (int i = 0; i < choice.rail_count; i++)
        ck_assert_int_eq(choice.rails[i], choices[_i].rails[i]);
    end();
}
END_TEST

/* ---- The table ---- */

static char table[60][500];
static int table_count;

static void keep_line(void *arg, const char *text)
{
    ck_assert_ptr_eq(arg, table);
    ck_assert_int_lt(table_count, 60);
    snprintf(table[table_count++], sizeof(table[0]), "%s", text);
}

static void expect_row(int row, const char *node, const char *interface, const char *why)
{
    char text[300];
    snprintf(text, sizeof(text), "%-12s  %-12s  ", node, interface);
    ck_assert_msg(strncmp(table[row], text, strlen(text)) == 0, "row %d: %s", row, table[row]);
    ck_assert_msg(strstr(table[row], why) != NULL, "row %d: %s", row, table[row]);
}

START_TEST(the_table_says_why_not)
{
    static const struct interface interfaces[] = {{.name = "eth0", .addresses = {"10.0.0.%d/24"}},
                                                  DOCKER,
                                                  {.name = "pair0", .addresses = {"10.4.0.%d/24"}, .only = 1},
                                                  {.name = "lan0", .addresses = {"10.9.0.1/24"}},
                                                  {.name = "ib0", .verbs = "mlx5_0"},
                                                  {.name = NULL}};
    make_nodes(interfaces, 2, NULL);
    memset(probe_results, 0, sizeof(probe_results));
    snprintf(probe_results[1].why[0], NETWORK_WHY_BYTES, "no way to 10.0.0.1 of n1: does not answer");
    table_count = 0;
    network_table(nodes, &plan, probe_results, keep_line, table);
    ck_assert_int_eq(table_count, 10);
    expect_row(1, "n2", "eth0", "10.0.0.2          no way to 10.0.0.1 of n1: does not answer");
    expect_row(2, "n1", "eth0", "works here, but not on n2");
    expect_row(3, "n1", "lan0", "n2 has the same address");
    expect_row(4, "n1", "ib0", "has no address");
    expect_row(5, "n1", "pair0", "n2 has nothing in 10.4.0.0/24");
    expect_row(8, "n1", "docker0", "leads to containers");
    end();
}
END_TEST

/* Nodes with one interface, which cannot join them. */
START_TEST(the_table_of_a_job_without_a_rail)
{
    static const struct interface interfaces[] = {{.name = "lan0", .addresses = {"10.9.0.1/24"}},
                                                  {.name = NULL}};
    make_nodes(interfaces, 2, NULL);
    memset(probe_results, 0, sizeof(probe_results));
    table_count = 0;
    network_table(nodes, &plan, probe_results, keep_line, table);
    ck_assert_int_eq(table_count, 3);
    expect_row(1, "n1", "lan0", "n2 has the same address");
    expect_row(2, "n2", "lan0", "n1 has the same address");
    end();
}
END_TEST

START_TEST(the_table_is_bounded)
{
    struct interface interfaces[14] = {{.name = NULL}};
    char names[13][16], addresses[13][32];
    for (int i = 0; i < 13; i++) {
        snprintf(names[i], sizeof(names[i]), "docker%d", i);
        snprintf(addresses[i], sizeof(addresses[i]), "10.%d.0.1/24", i);
        interfaces[i] = (struct interface){.name = names[i], .addresses = {addresses[i]}};
    }
    make_nodes(interfaces, MAX_NODES, NULL);
    memset(probe_results, 0, sizeof(probe_results));
    nodes[2].left_out = 40;
    table_count = 0;
    network_table(nodes, &plan, probe_results, keep_line, table);
    ck_assert_int_eq(table_count, NETWORK_TABLE_LINES);
    ck_assert_str_eq(table[NETWORK_TABLE_LINES - 1], "and 44 more interfaces");
    end();
}
END_TEST

/* ---- What other libraries are told ---- */

static const struct interface rdma[] = {
    {.name = "ib0", .verbs = "mlx5_0", .addresses = {"10.2.0.%d/24"}, .mbps = 200000},
    {.name = "", .verbs = "mlx5_1", .mbps = 200000, .link = NIC_LINK_UP},
    {.name = "", .verbs = "mlx5_2", .mbps = 200000, .link = NIC_LINK_DOWN},
    {.name = "", .verbs = "mlx5_3", .mbps = 25000, .link = NIC_LINK_UP},
    {.name = "eth0", .addresses = {"10.0.0.%d/24"}, .mbps = 1000},
    {.name = NULL}};

static void expect_settings(int node, const char *sockets, const char *cards, const char *ucx,
                            const char *interfaces)
{
    struct nic_env settings;
    network_env_of_choice(nodes, &plan, &choice, node, &settings);
    ck_assert_str_eq(settings.values[NIC_ENV_NCCL_SOCKETS], sockets);
    ck_assert_str_eq(settings.values[NIC_ENV_NCCL_RDMA], cards);
    ck_assert_str_eq(settings.values[NIC_ENV_UCX], ucx);
    ck_assert_str_eq(settings.values[NIC_ENV_GLOO], interfaces);
    ck_assert_str_eq(settings.values[NIC_ENV_OPEN_MPI], interfaces);
}

static void expect_nccl_net(int node, const char *net)
{
    struct nic_env settings;
    network_env_of_choice(nodes, &plan, &choice, node, &settings);
    ck_assert_str_eq(settings.values[NIC_ENV_NCCL_NET], net);
}

START_TEST(libraries_are_told_one_choice)
{
    memset(probe_results, 0, sizeof(probe_results));
    make_nodes(rdma, 2, NULL);
    network_choose(&plan, probe_results, &choice);
    expect_settings(1, "=ib0", "=mlx5_0:1,mlx5_1:1", "mlx5_0:1,mlx5_1:1", "ib0");
    expect_nccl_net(1, "");
    end();
    make_nodes(three, 2, NULL);
    network_choose(&plan, probe_results, &choice);
    expect_settings(0, "=ib0,eth0", "", "ib0,eth0", "ib0,eth0");
    expect_nccl_net(0, "");
    end();
}
END_TEST

/* RDMA that one node lacks is nobody's, and NCCL does not use it either. */
START_TEST(cards_are_told_where_all_have_some)
{
    memset(probe_results, 0, sizeof(probe_results));
    make_nodes(rdma, 2, NULL);
    for (int i = 0; i < nodes[1].nic_count; i++)
        nodes[1].nics[i].verbs[0] = 0;
    network_choose(&plan, probe_results, &choice);
    expect_settings(0, "=ib0", "", "ib0", "ib0");
    expect_nccl_net(0, "Socket");
    expect_nccl_net(1, "Socket");
    end();
}
END_TEST

static const struct {
    enum nic_env_id id;
    const char *value;
    const char *why; /* NULL: nothing is wrong */
} given[] = {
    {NIC_ENV_NCCL_SOCKETS, "ib", NULL},
    {NIC_ENV_NCCL_SOCKETS, "=ib0", NULL},
    {NIC_ENV_NCCL_SOCKETS, "=ib", "names ib, which is not there"},
    {NIC_ENV_NCCL_SOCKETS, "en,ib", NULL},
    {NIC_ENV_NCCL_SOCKETS, "^docker,lo", NULL},
    {NIC_ENV_NCCL_SOCKETS, "^ib", "leaves nothing that was proven"},
    {NIC_ENV_NCCL_SOCKETS, "eth0", "leaves nothing that was proven"},
    {NIC_ENV_NCCL_SOCKETS, "ib9", "names ib9, which is not there"},
    {NIC_ENV_NCCL_RDMA, "mlx5", NULL},
    {NIC_ENV_NCCL_RDMA, "=mlx5_1:1", NULL},
    {NIC_ENV_NCCL_RDMA, "=mlx5_1:2", "names mlx5_1:2, which is not there"},
    {NIC_ENV_NCCL_RDMA, "mlx4", "names mlx4, which is not there"},
    {NIC_ENV_UCX, "all", NULL},
    {NIC_ENV_UCX, "mlx5_0:1,ib0", NULL},
    {NIC_ENV_UCX, "mlx5_0:1,ib7", "names ib7, which is not there"},
    {NIC_ENV_UCX, "eth0", "leaves nothing that was proven"},
    {NIC_ENV_UCX, "^eth0", NULL},
    {NIC_ENV_GLOO, "ib0", NULL},
    {NIC_ENV_GLOO, "ib", "names ib, which is not there"},
    {NIC_ENV_GLOO, "eth0", "leaves nothing that was proven"},
    {NIC_ENV_OPEN_MPI, "10.2.0.0/16", NULL},
    {NIC_ENV_OPEN_MPI, "10.0.0.0/24", "leaves nothing that was proven"},
    {NIC_ENV_OPEN_MPI, "10.3.0.0/16", "names 10.3.0.0/16, which is not there"},
    {NIC_ENV_OPEN_MPI, "ib0,eth0", NULL},
    {NIC_ENV_OPEN_MPI, "", NULL},
    {NIC_ENV_OPEN_MPI, ",", "leaves nothing that was proven"},
};

START_TEST(what_users_set_is_checked)
{
    char why[NETWORK_ENV_WHY_BYTES] = "";
    memset(probe_results, 0, sizeof(probe_results));
    make_nodes(rdma, 2, NULL);
    network_choose(&plan, probe_results, &choice);
    nodes[1].settings[given[_i].id] = strdup(given[_i].value);
    bool wrong = network_env_is_wrong(given[_i].id, nodes, &plan, &choice, 1, why);
    ck_assert_msg(wrong == (given[_i].why != NULL), "%s: %s", given[_i].value, why);
    ck_assert_msg(strstr(why, wrong ? given[_i].why : "") != NULL, "%s: %s", given[_i].value, why);
    end();
}
END_TEST

/* ---- Bytes ---- */

static unsigned char bytes[NIC_OFFER_BYTES];

static size_t encode_one(void)
{
    make_nodes(rdma, 1, NULL);
    nodes[0].settings[NIC_ENV_UCX] = strdup("all");
    nodes[0].left_out = 7;
    return nic_offer_encode(&nodes[0], bytes);
}

START_TEST(a_node_survives_its_bytes)
{
    struct network_node read = {.host = "x"};
    size_t length = encode_one();
    ck_assert_int_eq(nic_offer_decode(&read, bytes, length), HVD_OK);
    ck_assert_str_eq(read.host, "x");
    ck_assert_int_eq(read.nic_count, nodes[0].nic_count);
    ck_assert_int_eq(read.left_out, 7);
    ck_assert_str_eq(read.settings[NIC_ENV_UCX], "all");
    ck_assert_ptr_null(read.settings[NIC_ENV_GLOO]);
    for (int i = 0; i < read.nic_count; i++)
        ck_assert_mem_eq(&read.nics[i], &nodes[0].nics[i], sizeof(read.nics[i]));
    nic_offer_free(&read);
    end();
}
END_TEST

START_TEST(cut_and_longer_bytes_are_refused)
{
    struct network_node read = {.host = "x"};
    size_t length = encode_one();
    for (size_t cut = 0; cut < length; cut++)
        ck_assert_int_eq(nic_offer_decode(&read, bytes, cut), HVD_ERR_INVALID);
    bytes[length] = 0;
    ck_assert_int_eq(nic_offer_decode(&read, bytes, length + 1), HVD_ERR_INVALID);
    ck_assert_ptr_null(read.nics);
    end();
}
END_TEST

/* Whatever is let through keeps its bounds: it can be planned with, and said again. */
START_TEST(changed_bytes_are_harmless)
{
    size_t length = encode_one();
    static unsigned char again[NIC_OFFER_BYTES];
    for (size_t at = 0; at < length; at++) {
        static const unsigned char values[] = {0, 1, 0x1f, 0x7f, 0x80, 0xff};
        for (size_t i = 0; i < sizeof(values); i++) {
            struct network_node read[2] = {{.host = "a"}, {.host = "b"}};
            struct network_plan tried;
            unsigned char was = bytes[at];
            bytes[at] = values[i];
            if (nic_offer_decode(&read[0], bytes, length) == HVD_OK &&
                nic_offer_decode(&read[1], bytes, length) == HVD_OK) {
                ck_assert_uint_eq(nic_offer_encode(&read[0], again), length);
                ck_assert_mem_eq(again, bytes, length);
                ck_assert_int_eq(network_plan(read, 2, &tried), HVD_OK);
                ck_assert_int_eq(tried.rail_count, 0); /* one address twice */
                network_plan_close(&tried);
            }
            nic_offer_free(&read[0]);
            nic_offer_free(&read[1]);
            bytes[at] = was;
        }
    }
    end();
}
END_TEST

START_TEST(a_proof_survives_its_bytes)
{
    static unsigned char said[PROBE_RESULT_BYTES + 1];
    struct network_probe_result result = {.why = {"", "no way", ""}}, read;
    size_t length = probe_result_encode(&result, 3, said);
    ck_assert_int_eq(probe_result_decode(&read, 3, said, length), HVD_OK);
    ck_assert_mem_eq(&read, &result, sizeof(read));
    ck_assert_int_eq(probe_result_decode(&read, 2, said, length), HVD_ERR_INVALID);
    for (size_t cut = 0; cut < length; cut++)
        ck_assert_int_eq(probe_result_decode(&read, 3, said, cut), HVD_ERR_INVALID);
    ck_assert_int_eq(probe_result_decode(&read, 3, said, length + 1), HVD_ERR_INVALID);
    said[length - 4] = '\n'; /* in "no way" */
    ck_assert_int_eq(probe_result_decode(&read, 3, said, length), HVD_ERR_INVALID);
}
END_TEST

/* A node of hundreds of interfaces tells of those that matter. */
START_TEST(what_is_left_out_is_counted)
{
    static struct nic nics[100];
    for (int i = 0; i < 100; i++) {
        snprintf(nics[i].netdev, sizeof(nics[i].netdev), i == 99 ? "eth0" : "veth%02d", i);
        nics[i].addresses_known = true;
        nics[i].address_count = 1;
        read_address("10.0.0.%d/24", i + 1, &nics[i].addresses[0]);
    }
    ck_assert_int_eq(nics_select(nics, 100, NULL, NULL), HVD_OK);
    ck_assert_int_eq(nic_offer_of_nics(&nodes[0], nics, 100), HVD_OK);
    ck_assert_int_eq(nodes[0].nic_count, NETWORK_MAX_NICS);
    ck_assert_int_eq(nodes[0].left_out, 100 - NETWORK_MAX_NICS);
    ck_assert_str_eq(nodes[0].nics[0].name, "eth0");
    nic_offer_free(&nodes[0]);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("network");
    tcase_set_timeout(tcase, 60);
    unit_add_rounds(tcase, rails_are_what_all_nodes_share, 0, sizeof(plans) / sizeof(plans[0]));
    tcase_add_test(tcase, nodes_may_call_interfaces_otherwise);
    tcase_add_test(tcase, a_source_belongs_to_its_rail);
    tcase_add_loop_test(tcase, two_nodes_of_equal_addresses_are_found, 0,
                        sizeof(clashes) / sizeof(clashes[0]));
    tcase_add_test(tcase, connections_have_two_ends);
    tcase_add_test(tcase, many_nodes_try_few_each);
    unit_add_rounds(tcase, what_failed_anywhere_is_not_used, 0, sizeof(choices) / sizeof(choices[0]));
    tcase_add_test(tcase, the_table_says_why_not);
    tcase_add_test(tcase, the_table_of_a_job_without_a_rail);
    tcase_add_test(tcase, the_table_is_bounded);
    tcase_add_test(tcase, libraries_are_told_one_choice);
    tcase_add_test(tcase, cards_are_told_where_all_have_some);
    unit_add_rounds(tcase, what_users_set_is_checked, 0, sizeof(given) / sizeof(given[0]));
    tcase_add_test(tcase, a_node_survives_its_bytes);
    tcase_add_test(tcase, cut_and_longer_bytes_are_refused);
    tcase_add_test(tcase, changed_bytes_are_harmless);
    tcase_add_test(tcase, a_proof_survives_its_bytes);
    tcase_add_test(tcase, what_is_left_out_is_counted);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("network", fill);
}
