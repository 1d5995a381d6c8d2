/* test_node_address.c: which names and addresses lead to a node. */
#include "config.h"

#include "unit.h"

#include "options/node_address.h"

static const struct {
    const char *text;
    bool leads, leads_here;
} addresses[] = {
    {"10.77.0.1", true, true},
    {"fd77::1", true, true},
    {"127.0.1.1", false, true},
    {"::1", false, true},
    {"0.0.0.0", false, false},
    {"::", false, false},
    {"224.0.0.1", false, false},
    {"ff02::1", false, false},
    {"fe80::1", false, false}, /* without its interface it leads nowhere */
    {"::ffff:127.0.0.1", false, false},
    {"10.77.1", false, false},
    {"10.77.0.1 ", false, false},
    {"n1", false, false},
    {"later", false, false},
    {"", false, false},
};

START_TEST(only_an_address_that_leads_there_counts)
{
    ck_assert_int_eq(node_address_leads(addresses[_i].text, false), addresses[_i].leads);
    ck_assert_int_eq(node_address_leads(addresses[_i].text, true), addresses[_i].leads_here);
}
END_TEST

/* Everywhere this name is the node's own. */
START_TEST(a_name_counts_by_its_addresses)
{
    ck_assert(node_name_leads("localhost", true));
    ck_assert(!node_name_leads("localhost", false));
    ck_assert(node_name_leads("10.77.0.1", false));
    ck_assert(!node_name_leads("a..b", true));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("node_address");
    tcase_add_loop_test(tcase, only_an_address_that_leads_there_counts, 0,
                        sizeof(addresses) / sizeof(addresses[0]));
    tcase_add_test(tcase, a_name_counts_by_its_addresses);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("node_address", fill);
}
