/* test_nic_discovery.c: which rails are chosen from what the nodes have found out. */
#include "config.h"
#include "unit.h"

#include <string.h>

#include "bootstrap/nic_discovery.h"
#include "bootstrap/start_report.h"
#include "made_nics.h"
#include "net/nic_offer.h"

#define NODES 3
#define RAILS 2

static struct blob_list reports;
static struct peer peers[NODES];
static struct nic_discovery discovery;

/* Rank 1 of one rank on each node, all of which have 10.1.0.0/24 and 10.2.0.0/24. */
static struct peer_table open_discovery(void)
{
    static const char *const hosts[NODES] = {"n1", "n2", "n3"};
    struct peer_table peer_table = {.rank = 1, .size = NODES, .peers = peers};
    discovery = (struct nic_discovery){.node_count = NODES,
                                       .node = 1,
                                       .node_of_rank = calloc(NODES, sizeof(int)),
                                       .first_ranks = calloc(NODES, sizeof(int)),
                                       .nodes = calloc(NODES, sizeof(*discovery.nodes)),
                                       .probe_results = calloc(NODES, sizeof(*discovery.probe_results))};
    for (int i = 0; i < NODES; i++) {
        char nets[RAILS][32];
        for (int rail = 0; rail < RAILS; rail++)
            snprintf(nets[rail], sizeof(nets[rail]), "10.%d.0.%d/24", rail + 1, i + 1);
        struct nic nics[RAILS] = {interface("eth0", "", 25000, nets[0]),
                                  interface("eth1", "", 20000, nets[1])};
        discovery.node_of_rank[i] = discovery.first_ranks[i] = i;
        ck_assert_int_eq(nics_select(nics, RAILS, NULL, NULL), HVD_OK);
        ck_assert_int_eq(nic_offer_of_nics(&discovery.nodes[i], nics, RAILS), HVD_OK);
        discovery.nodes[i].host = hosts[i];
        peers[i].address_count = 0;
    }
    ck_assert_int_eq(network_plan(discovery.nodes, NODES, &discovery.plan), HVD_OK);
    ck_assert_int_eq(discovery.plan.rail_count, RAILS);
    return peer_table;
}

/* What each node reports; on [failed], the rail [rail] did not work; -1: all worked. The result of [cut] is a
 * byte too short. */
static void make_reports(int failed, int rail, int cut)
{
    blob_list_free(&reports);
    for (int i = 0; i < NODES; i++) {
        unsigned char bytes[START_REPORT_BYTES], result_bytes[PROBE_RESULT_BYTES];
        struct network_probe_result result = {.why = {""}};
        if (i == failed)
            snprintf(result.why[rail], sizeof(result.why[rail]), "no way to 10.1.0.3 of n3");
        struct start_report report = {.step = NIC_DISCOVERY_STEP, .result = result_bytes};
        report.result_length = probe_result_encode(&result, RAILS, result_bytes) - (i == cut);
        size_t length = start_report_encode(&report, bytes);
        ck_assert_int_eq(blob_list_append(&reports, i, bytes, length, NULL), HVD_OK);
    }
}

/* Every node's result counts, be it the only one that says so. */
START_TEST(a_rail_must_work_on_each_node)
{
    struct hvd_error err = {""};
    struct peer_table peer_table = open_discovery();
    make_reports(_i, 0, -1);
    ck_assert_msg(nic_discovery_choose(&discovery, &peer_table, &reports, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(discovery.choice.rail_count, _i < 0 ? 2 : 1);
    ck_assert_int_eq(discovery.choice.rails[0], _i < 0 ? 0 : 1);
    ck_assert_int_eq(peers[1].address_count, 0); /* this rank's node: its addresses stay */
    ck_assert_int_eq(peers[2].address_count, discovery.choice.rail_count);
    ck_assert_int_eq(peers[2].addresses[0].s6_addr[13], _i < 0 ? 1 : 2); /* 10.1.0.3, or 10.2.0.3 */
    nic_discovery_close(&discovery);
    blob_list_free(&reports);
}
END_TEST

START_TEST(what_is_damaged_is_refused)
{
    struct hvd_error err = {""};
    char expected[200];
    struct peer_table peer_table = open_discovery();
    make_reports(-1, 0, _i);
    ck_assert_int_eq(nic_discovery_choose(&discovery, &peer_table, &reports, &err), HVD_ERR_INVALID);
    snprintf(expected, sizeof(expected), "what rank %d tells of its network (result) is cut short or damaged",
             _i);
    ck_assert_str_eq(err.text, expected);
    nic_discovery_close(&discovery);
    blob_list_free(&reports);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nic_discovery");
    tcase_add_loop_test(tcase, a_rail_must_work_on_each_node, -1, NODES);
    tcase_add_loop_test(tcase, what_is_damaged_is_refused, 0, NODES);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nic_discovery", fill);
}
