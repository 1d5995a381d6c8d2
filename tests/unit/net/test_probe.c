/* test_probe.c: connections that may fail, and what is made of where they come from. Ranks are threads here.
 */
#include "config.h"
#include "unit.h"

#include <errno.h>

#include "net/probe.h"
#include "endpoint_threads.h"

static void *attempt(void *arg)
{
    struct endpoint_thread *member = arg;
    struct endpoint_timeout timeout = {clock_us() + member->limit_us, SECOND / 10};
    member->rc = endpoint_try_establish(member->endpoint, &member->peer_table, member->wants,
                                        member->want_count, timeout, &member->err);
    return NULL;
}

/* One lane is complete, and of the other nobody comes: that is waited for a little, and is no failure. */
START_TEST(what_does_not_come_true_is_left)
{
    struct in6_addr other;
    open_ranks(2);
    inet_pton(AF_INET6, "::ffff:127.0.0.3", &other);
    want_tagged(0, 1, 1, true);
    want_tagged(0, 1, 2, false);
    want_tagged(1, 0, 1, false);
    members[0].wants[0].address = &other; /* not that of the peer_table */
    members[0].wants[1].lane = 1;
    members[0].limit_us = 3600 * SECOND;
    start(1);
    attempt(&members[0]);
    finish(1);
    expect_done(0);
    expect_done(1);
    ck_assert_int_eq(members[0].wants[1].fd, -1);
    ck_assert_ptr_null(members[0].wants[1].why);
    expect_address(members[0].wants[0].fd, "127.0.0.3");
    check_pair(members[0].wants[0].fd, members[1].wants[0].fd);
    close_ranks();
}
END_TEST

START_TEST(what_came_of_a_try_is_said)
{
    open_ranks(2);
    members[0].peers[1].port = 1; /* nobody listens there */
    want(0, 1, ENDPOINT_PROBE, true);
    members[0].limit_us = SECOND / 5;
    attempt(&members[0]);
    expect_done(0);
    ck_assert_int_eq(members[0].wants[0].fd, -1);
    ck_assert_str_eq(members[0].wants[0].why, strerror(ECONNREFUSED));
    close_ranks();
}
END_TEST

/* ---- Three nodes on loopback, where all connections come from 127.0.0.1 ---- */

#define NODES 3

static struct network_nic nics[NODES][2];
static struct network_node nodes[NODES];
static struct network_plan plan;
static const int ranks[NODES] = {0, 1, 2};
static struct network_probe_result probe_results[NODES];
static struct probe probes[NODES];

static void add_address(struct network_nic *nic, const char *net, int number)
{
    char text[64];
    snprintf(text, sizeof(text), "::ffff:%s.%d", net, number);
    nic->addresses[nic->address_count].prefix_bits = 96 + 24;
    inet_pton(AF_INET6, text, &nic->addresses[nic->address_count++].address);
}

/* eth0 has that address, too, and so comes from one of its own; eth1 has not. */
static void make_nodes(void)
{
    static const char *const hosts[NODES] = {"n0", "n1", "n2"};
    for (int node = 0; node < NODES; node++) {
        nodes[node] = (struct network_node){.host = hosts[node], .nic_count = 2, .nics = nics[node]};
        for (int i = 0; i < 2; i++)
            snprintf(nics[node][i].name, sizeof(nics[node][i].name), "eth%d", i);
        add_address(&nics[node][0], "127.0.1", 1 + node);
        add_address(&nics[node][0], "127.0.0", 1);
        add_address(&nics[node][1], "127.0.2", 1 + node);
    }
    ck_assert_int_eq(network_plan(nodes, NODES, &plan), HVD_OK);
    ck_assert_int_eq(plan.rail_count, 2);
}

static void *probe_one(void *arg)
{
    struct endpoint_thread *member = arg;
    int node = member->peer_table.rank;
    probes[node] = (struct probe){.nodes = nodes, .plan = &plan, .ranks = ranks, .node = node};
    member->rc = probe_run(&probes[node], member->endpoint, &member->peer_table, clock_us() + 10 * SECOND,
                           &probe_results[node], &member->err);
    return NULL;
}

START_TEST(connections_come_from_their_rail)
{
    int before = open_descriptors();
    struct network_choice choice;
    open_ranks(NODES);
    make_nodes();
    for (int node = 0; node < NODES; node++)
        ck_assert_int_eq(pthread_create(&members[node].thread, NULL, probe_one, &members[node]), 0);
    for (int node = 0; node < NODES; node++) {
        finish(node);
        expect_done(node);
        ck_assert_str_eq(probe_results[node].why[0], "");
        ck_assert_msg(strstr(probe_results[node].why[1], "a route leads to n") == probe_results[node].why[1],
                      "%s", probe_results[node].why[1]);
    }
    network_choose(&plan, probe_results, &choice);
    ck_assert_int_eq(choice.rail_count, 1);
    ck_assert_int_eq(choice.rails[0], 0);
    for (int node = 0; node < NODES; node++)
        probe_close(&probes[node]);
    network_plan_close(&plan);
    close_ranks();
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* Node 2 does not try: nothing works, which is no failure, and both others say with whom. */
START_TEST(who_does_not_come_is_named)
{
    open_ranks(NODES);
    make_nodes();
    for (int node = 0; node < 2; node++) {
        members[node].peers[2].port = 1; /* nobody listens there */
        ck_assert_int_eq(pthread_create(&members[node].thread, NULL, probe_one, &members[node]), 0);
    }
    for (int node = 0; node < 2; node++) {
        finish(node);
        expect_done(node);
    }
    ck_assert_str_eq(probe_results[0].why[0], "127.0.1.3 of n2 did not connect");
    ck_assert_str_eq(probe_results[1].why[0], "no way to 127.0.1.3 of n2: Connection refused");
    probe_close(&probes[0]);
    probe_close(&probes[1]);
    network_plan_close(&plan);
    close_ranks();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("probe");
    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, what_does_not_come_true_is_left);
    tcase_add_test(tcase, what_came_of_a_try_is_said);
    tcase_add_test(tcase, connections_come_from_their_rail);
    tcase_add_test(tcase, who_does_not_come_is_named);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("probe", fill);
}
