/* test_nic_filter.c: the values of --hvd-nics. */
#include "options/nic_filter.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "unit.h"

START_TEST(names_and_subnets_are_read)
{
    struct nic_filter entries[NIC_FILTER_MAX];
    unsigned char net[4] = {10, 1, 0, 0};
    int count = 4711;
    const char *why = "";
    ck_assert_msg(nic_filter_parse("eth0,mlx5_1,10.1.0.0/16,fd00::/8", entries, &count, &why) == 0, "%s",
                  why);
    ck_assert_int_eq(count, 4);
    ck_assert_str_eq(entries[0].name, "eth0");
    ck_assert_int_eq(entries[0].family, 0);
    ck_assert_str_eq(entries[1].name, "mlx5_1");
    ck_assert_int_eq(entries[2].family, AF_INET);
    ck_assert_int_eq(entries[2].prefix, 16);
    ck_assert_mem_eq(entries[2].bytes, net, sizeof(net));
    ck_assert_int_eq(entries[3].family, AF_INET6);
    ck_assert_int_eq(entries[3].prefix, 8);
    ck_assert_int_eq(nic_filter_parse("auto", entries, &count, &why), 0);
    ck_assert_int_eq(count, 0);
}
END_TEST

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "has an empty name"},
    {"eth0,", "has an empty name"},
    {"eth0,,eth1", "has an empty name"},
    {"eth0,eth0", "has a name twice"},
    {"eth 0", "character"},
    {"eth0;x", "character"},
    {"eth\n", "character"},
    {"10.1/16", "whose address is not one"},
    {"10.1.0.0/33", "too large"},
    {"10.1.0.0/", "not a whole one"},
    {"10.1.0.0/1/2", "not a whole one"},
    {"fd00::/129", "too large"},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "too long"},
};

START_TEST(bad_values_are_refused)
{
    struct nic_filter entries[NIC_FILTER_MAX];
    int count = 4711;
    const char *why = "";
    ck_assert_int_eq(nic_filter_parse(bad[_i].text, entries, &count, &why), -1);
    ck_assert_msg(strstr(why, bad[_i].why) != NULL, "%s: %s", bad[_i].text, why);
    ck_assert_int_eq(count, 4711);
}
END_TEST

START_TEST(there_are_at_most_32)
{
    struct nic_filter entries[NIC_FILTER_MAX];
    char text[512] = "n0";
    int count;
    const char *why = "";
    for (int i = 1; i < NIC_FILTER_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ",n%d", i);
    ck_assert_int_eq(nic_filter_parse(text, entries, &count, &why), 0);
    ck_assert_int_eq(count, NIC_FILTER_MAX);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), ",n32");
    ck_assert_int_eq(nic_filter_parse(text, entries, &count, &why), -1);
    ck_assert_msg(strstr(why, "more than 32") != NULL, "%s", why);
}
END_TEST

START_TEST(interfaces_of_containers_are_known)
{
    static const char *const theirs[] = {"docker0", "virbr0", "br-1a2b3c", "veth12", "cni0", "podman1"};
    static const char *const ours[] = {"eth0", "br0", "bond0", "ib0", "en-docker", "vlan2"};
    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
        ck_assert(nic_filter_is_virtual(theirs[i]));
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        ck_assert(!nic_filter_is_virtual(ours[i]));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nic_filter");
    tcase_add_test(tcase, names_and_subnets_are_read);
    unit_add_rounds(tcase, bad_values_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tcase, there_are_at_most_32);
    tcase_add_test(tcase, interfaces_of_containers_are_known);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nic_filter", fill);
}
