/* test_nic_env.c: how libraries are told of interfaces and RDMA devices. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "topo/nic.h"
#include "topo/nic_env.h"

static struct nic_env_list interfaces, cards;
static struct nic_env settings;

static void begin(void)
{
    memset(&interfaces, 0, sizeof(interfaces));
    memset(&cards, 0, sizeof(cards));
}

static void expect(enum nic_env_id id, const char *value)
{
    ck_assert_str_eq(settings.values[id], value);
}

START_TEST(each_library_has_its_way_of_writing)
{
    begin();
    nic_env_list_add(&interfaces, "eth0");
    nic_env_list_add(&interfaces, "eth1.20");
    nic_env_from_lists(&interfaces, &cards, &settings);
    expect(NIC_ENV_NCCL_SOCKETS, "=eth0,eth1.20");
    expect(NIC_ENV_GLOO, "eth0,eth1.20");
    expect(NIC_ENV_OPEN_MPI, "eth0,eth1.20");
    expect(NIC_ENV_UCX, "eth0,eth1.20");
    expect(NIC_ENV_NCCL_RDMA, "");
    nic_env_list_add_rdma(&cards, "mlx5_0", 0);
    nic_env_list_add_rdma(&cards, "mlx5_1", 2);
    nic_env_from_lists(&interfaces, &cards, &settings);
    expect(NIC_ENV_NCCL_SOCKETS, "=eth0,eth1.20");
    expect(NIC_ENV_NCCL_RDMA, "=mlx5_0:1,mlx5_1:2");
    expect(NIC_ENV_UCX, "mlx5_0:1,mlx5_1:2");
}
END_TEST

START_TEST(nothing_is_told_of_nothing)
{
    begin();
    nic_env_from_lists(&interfaces, &cards, &settings);
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        expect((enum nic_env_id)id, "");
}
END_TEST

/* Half a list would keep a library from the rest. */
START_TEST(a_list_that_does_not_fit_is_left_out_for_good)
{
    char name[NIC_VERBS_BYTES];
    begin();
    nic_env_list_add(&interfaces, "eth0");
    for (int i = 0; i < 32; i++) {
        snprintf(name, sizeof(name), "a_card_with_quite_a_long_name_%d", i);
        nic_env_list_add_rdma(&cards, name, 1);
    }
    ck_assert(cards.failed);
    nic_env_from_lists(&interfaces, &cards, &settings);
    expect(NIC_ENV_NCCL_RDMA, "");
    expect(NIC_ENV_UCX, "");
    expect(NIC_ENV_GLOO, "eth0");
}
END_TEST

static const char *const odd_names[] = {"", "a,b", "a;b", "a b", "^a", "=a", "a*", "a\n", "\xc3\xa4"};

START_TEST(a_name_that_lists_cannot_hold_leaves_the_list_out)
{
    begin();
    nic_env_list_add(&interfaces, "eth0");
    nic_env_list_add(&interfaces, odd_names[_i]);
    nic_env_list_add(&interfaces, "eth1");
    nic_env_from_lists(&interfaces, &cards, &settings);
    expect(NIC_ENV_NCCL_SOCKETS, "");
    expect(NIC_ENV_OPEN_MPI, "");
}
END_TEST

START_TEST(what_a_launcher_set_is_read_as_it_was_written)
{
    char text[NETWORK_SET_BYTES];
    struct nic_env read;
    begin();
    nic_env_list_add(&interfaces, "eth0");
    nic_env_list_add(&interfaces, "eth1");
    nic_env_from_lists(&interfaces, &cards, &settings);
    nic_env_format(&settings, text);
    ck_assert_str_eq(text, "NCCL_SOCKET_IFNAME==eth0,eth1;UCX_NET_DEVICES=eth0,eth1;"
                           "GLOO_SOCKET_IFNAME=eth0,eth1;OMPI_MCA_btl_tcp_if_include=eth0,eth1");
    ck_assert_int_eq(nic_env_parse(text, &read), 0);
    ck_assert_mem_eq(&read, &settings, sizeof(read));
}
END_TEST

START_TEST(the_longest_fits)
{
    static char text[NETWORK_SET_BYTES];
    static struct nic_env read;
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        memset(settings.values[id], 'x', NIC_ENV_BYTES - 1);
        settings.values[id][NIC_ENV_BYTES - 1] = 0;
    }
    nic_env_format(&settings, text);
    ck_assert_int_eq(nic_env_parse(text, &read), 0);
    ck_assert_mem_eq(&read, &settings, sizeof(read));
}
END_TEST

START_TEST(a_library_that_we_do_not_know_is_left_out)
{
    memset(&settings, 0, sizeof(settings));
    ck_assert_int_eq(nic_env_parse("PATH=/;GLOO_SOCKET_IFNAME=eth0", &settings), 0);
    expect(NIC_ENV_GLOO, "eth0");
    expect(NIC_ENV_UCX, "");
}
END_TEST

START_TEST(the_last_value_of_a_library_counts)
{
    memset(&settings, 0, sizeof(settings));
    ck_assert_int_eq(nic_env_parse("GLOO_SOCKET_IFNAME=eth10,eth1;GLOO_SOCKET_IFNAME=eth1", &settings), 0);
    expect(NIC_ENV_GLOO, "eth1");
}
END_TEST

static const char *const no_lists[] = {"", ";", "GLOO_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME=", "x=y;", NULL};

START_TEST(what_no_launcher_writes_is_refused)
{
    char longest[NIC_ENV_BYTES + 32] = "GLOO_SOCKET_IFNAME=";
    memset(longest + strlen(longest), 'x', NIC_ENV_BYTES);
    longest[sizeof(longest) - 1] = 0;
    memset(&settings, 0, sizeof(settings));
    ck_assert_int_eq(nic_env_parse(no_lists[_i] == NULL ? longest : no_lists[_i], &settings), -1);
    expect(NIC_ENV_GLOO, "");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nic_env");
    tcase_add_test(tcase, each_library_has_its_way_of_writing);
    tcase_add_test(tcase, nothing_is_told_of_nothing);
    tcase_add_test(tcase, a_list_that_does_not_fit_is_left_out_for_good);
    tcase_add_loop_test(tcase, a_name_that_lists_cannot_hold_leaves_the_list_out, 0,
                        sizeof(odd_names) / sizeof(odd_names[0]));
    tcase_add_test(tcase, what_a_launcher_set_is_read_as_it_was_written);
    tcase_add_test(tcase, the_longest_fits);
    tcase_add_test(tcase, a_library_that_we_do_not_know_is_left_out);
    tcase_add_test(tcase, the_last_value_of_a_library_counts);
    tcase_add_loop_test(tcase, what_no_launcher_writes_is_refused, 0, sizeof(no_lists) / sizeof(no_lists[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nic_env", fill);
}
