/* test_task_network.c: what a step on several nodes is told of the network; the test stands in for Slurm. */
#include "config.h"

#ifndef HAVE_SLURM

#include <stdio.h>

int main(void)
{
    puts("1..0 # SKIP built without Slurm's header slurm/spank.h");
    return 0;
}

#else

#include "fake_slurm.h"

#include "made_nics.h"
#include "spank/task_network.h"

static const struct site no_site = {.list = ""};

/* A step on two nodes. */
static void begin(void)
{
    slurm.node_count = 2;
    options_register(NULL);
}

static void given(const char *name, const char *value)
{
    ck_assert_int_eq(give_option(name, value, 1), 0);
}

/* A task begins. */
static void begin_task(const struct site *site)
{
    task_network_init(NULL, site);
    ck_assert_int_eq(slurm.errors, 0);
}

static void expect(const char *name, const char *value)
{
    const char *set = variable(name);
    if (value == NULL)
        ck_assert_msg(set == NULL, "%s is set to %s", name, set);
    else
        ck_assert_str_eq(set == NULL ? "(nothing)" : set, value);
}

static void expect_nothing(void)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        expect(nic_env_names[id], NULL);
    expect(NETWORK_SET_VARIABLE, NULL);
}

/* ---- The task. lo is the one interface that every machine has. ---- */

#define SET_TO_LO                                                                                  \
    "NCCL_SOCKET_IFNAME==lo;UCX_NET_DEVICES=lo;GLOO_SOCKET_IFNAME=lo;OMPI_MCA_btl_tcp_if_include=" \
    "lo"

START_TEST(what_the_command_line_names_is_told)
{
    begin();
    given("nics", "lo");
    begin_task(&no_site);
    expect("NCCL_SOCKET_IFNAME", "=lo");
    expect("GLOO_SOCKET_IFNAME", "lo");
    expect("UCX_NET_DEVICES", "lo");
    expect("OMPI_MCA_btl_tcp_if_include", "lo");
    expect("NCCL_IB_HCA", NULL);
    expect(NETWORK_SET_VARIABLE, SET_TO_LO);
}
END_TEST

START_TEST(what_the_user_set_stays_and_is_not_listed)
{
    begin();
    given("nics", "lo");
    user_setenv("NCCL_SOCKET_IFNAME", "eth9");
    user_setenv("OMPI_MCA_btl_tcp_if_exclude", "docker0");
    begin_task(&no_site);
    expect("NCCL_SOCKET_IFNAME", "eth9");
    expect("OMPI_MCA_btl_tcp_if_include", NULL);
    expect(NETWORK_SET_VARIABLE, "UCX_NET_DEVICES=lo;GLOO_SOCKET_IFNAME=lo");
}
END_TEST

static const struct {
    const char *cli, *own, *config, *site; /* --hvd-nics, HVD_NICS, HVD_CONFIG, plugstack.conf */
    bool told;
} authorities[] = {
    {"lo", "absent0", "file", "nics=absent0", true},
    {NULL, "lo", "file", "nics=absent0", true},
    {NULL, NULL, NULL, "nics=absent0;fusion=1M;nics=lo", true},
    {NULL, NULL, NULL, "nicsx=lo", false},
    {NULL, NULL, "file", "nics=lo", false}, /* the file may say something else */
    {NULL, NULL, NULL, "nics=lo;config=file", false},
    {NULL, "auto", NULL, "nics=lo", false},
    {NULL, "", NULL, "nics=lo", false},
};

START_TEST(the_nearest_to_the_user_is_asked)
{
    struct site site = {.list = ""};
    begin();
    given("log", "info");
    if (authorities[_i].cli != NULL)
        given("nics", authorities[_i].cli);
    if (authorities[_i].own != NULL)
        user_setenv("HVD_NICS", authorities[_i].own);
    if (authorities[_i].config != NULL)
        user_setenv("HVD_CONFIG", authorities[_i].config);
    if (authorities[_i].site != NULL)
        snprintf(site.list, sizeof(site.list), "%s", authorities[_i].site);
    begin_task(&site);
    expect(NETWORK_SET_VARIABLE, authorities[_i].told ? SET_TO_LO : NULL);
}
END_TEST

START_TEST(too_long_a_word_of_the_user_is_not_guessed_at)
{
    static char longest[OPTION_VALUE_BYTES + 2];
    struct site site = {.list = "nics=lo"};
    begin();
    given("log", "info");
    memset(longest, 'x', sizeof(longest) - 1);
    user_setenv("HVD_NICS", longest);
    begin_task(&site);
    expect_nothing();
}
END_TEST

static const struct {
    uint32_t step_id, node_count;
    const char *nics; /* NULL: no option of hvd at all */
} left_alone[] = {{0, 1, "lo"},
                  {0, 0, "lo"},
                  {0, 2, NULL},
                  {SLURM_BATCH_SCRIPT, 2, "lo"},
                  {SLURM_EXTERN_CONT, 2, "lo"},
                  {SLURM_INTERACTIVE_STEP, 2, "lo"}};

START_TEST(other_steps_are_left_alone)
{
    begin();
    slurm.step_id = left_alone[_i].step_id;
    slurm.node_count = left_alone[_i].node_count;
    if (left_alone[_i].nics != NULL)
        given("nics", left_alone[_i].nics);
    begin_task(&no_site);
    expect_nothing();
}
END_TEST

START_TEST(what_cannot_be_had_is_told_once_a_node)
{
    begin();
    given("nics", "absent0");
    begin_task(&no_site);
    expect_nothing();
    ck_assert_int_eq(slurm.lines, 1);
    ck_assert_ptr_nonnull(
        strstr(slurm.last, "--hvd-nics=absent0: no network device of this node has that name"));
    slurm.local_task = 1;
    begin_task(&no_site);
    ck_assert_int_eq(slurm.lines, 1);
}
END_TEST

static const char *const odd_launchers[] = {"",
                                            "login",
                                            "10.0.0",
                                            "127.0.0.1",
                                            "10.0.0.1:6818",
                                            "1.2.3.4.5.6.7.8.9.0.1.2.3.4.5.6.7.8.9.0.1.2.3.4",
                                            "fe80::1%lo",
                                            "::1"};

START_TEST(an_odd_launching_node_is_not_believed)
{
    begin();
    given("log", "info");
    user_setenv("SLURM_LAUNCH_NODE_IPADDR", odd_launchers[_i]);
    begin_task(&no_site);
    expect_nothing();
}
END_TEST

START_TEST(an_outer_steps_word_is_replaced_or_taken_out)
{
    begin();
    user_setenv(NETWORK_SET_VARIABLE, "GLOO_SOCKET_IFNAME=eth5;UCX_NET_DEVICES=eth5");
    user_setenv("GLOO_SOCKET_IFNAME", "eth5");
    user_setenv("UCX_NET_DEVICES", "eth6"); /* the user's own, since */
    begin_task(&no_site);                   /* a step without options */
    expect("GLOO_SOCKET_IFNAME", NULL);
    expect("UCX_NET_DEVICES", "eth6");
    expect(NETWORK_SET_VARIABLE, NULL);
    user_setenv(NETWORK_SET_VARIABLE, "GLOO_SOCKET_IFNAME=eth5");
    user_setenv("GLOO_SOCKET_IFNAME", "eth5");
    given("nics", "lo");
    begin_task(&no_site);
    expect("GLOO_SOCKET_IFNAME", "lo");
    expect("UCX_NET_DEVICES", "eth6");
}
END_TEST

START_TEST(a_task_that_cannot_be_told_runs_as_it_is)
{
    begin();
    given("nics", "lo");
    slurm.setenv_answer = ESPANK_ERROR;
    begin_task(&no_site);
    expect_nothing();
}
END_TEST

/* ---- The choice ---- */

static struct nic_env settings;

static bool choose(struct nic *nics, int count, const char *asked, const char *launch, const char *source)
{
    struct task_route route = {address(launch), address(source)};
    struct hvd_error err = {""};
    ck_assert_msg(nics_select(nics, count, asked, &err) == HVD_OK, "%s", err.text);
    return task_network_choose(nics, count, asked != NULL, &route, &settings);
}

START_TEST(the_launching_nodes_subnet_is_chosen)
{
    struct nic nics[] = {interface("docker0", "", 0, "172.17.0.1/16"),
                         interface("eth0", "", 0, "10.1.0.2/24"), interface("eth1", "", 0, "10.2.0.2/24")};
    ck_assert(choose(nics, 3, NULL, "10.2.0.254", "10.2.0.2"));
    ck_assert_str_eq(settings.values[NIC_ENV_NCCL_SOCKETS], "=eth1");
    ck_assert(choose(nics, 3, NULL, "10.1.0.2", "10.1.0.2")); /* it is this node */
    ck_assert_str_eq(settings.values[NIC_ENV_NCCL_SOCKETS], "=eth0");
    ck_assert_str_eq(settings.values[NIC_ENV_UCX], "eth0");
}
END_TEST

START_TEST(what_is_not_sure_is_not_told)
{
    struct nic nics[] = {interface("docker0", "", 0, "172.17.0.1/16"),
                         interface("eth0", "", 0, "10.1.0.2/24"), interface("eth1", "", 0, "10.2.0.2/24")};
    ck_assert(!choose(nics, 3, NULL, "10.3.0.1", "10.1.0.2"));     /* behind a router */
    ck_assert(!choose(nics, 3, NULL, "10.1.0.1", "10.2.0.2"));     /* a route leads elsewhere */
    ck_assert(!choose(nics, 3, NULL, "172.17.0.9", "172.17.0.1")); /* containers */
    ck_assert(!task_network_choose(nics, 3, false, NULL, &settings));
    nics[1].addresses[0].prefix = 32; /* as some clouds have it */
    ck_assert(!choose(nics, 3, NULL, "10.1.0.1", "10.1.0.2"));
}
END_TEST

START_TEST(slurms_own_network_is_not_told_where_there_is_a_faster_one)
{
    struct nic nics[] = {interface("eth0", "", 10000, "10.1.0.2/24"),
                         interface("eth1", "", 20000, "10.2.0.2/24")};
    ck_assert(!choose(nics, 2, NULL, "10.1.0.254", "10.1.0.2"));
    ck_assert(choose(nics, 2, NULL, "10.2.0.254", "10.2.0.2"));
    nics[0].mbps = 1000; /* dropped as slow */
    ck_assert(!choose(nics, 2, NULL, "10.1.0.254", "10.1.0.2"));
    nics[0].mbps = 20000;
    ck_assert(choose(nics, 2, NULL, "10.1.0.254", "10.1.0.2"));
}
END_TEST

START_TEST(beside_cards_without_addresses_a_slow_interface_will_do)
{
    struct nic nics[] = {interface("eth0", "", 25000, "10.1.0.2/24"), interface("ib0", "mlx5_0", 200000, ""),
                         interface("", "mlx5_1", 200000, "")};
    ck_assert(choose(nics, 3, NULL, "10.1.0.254", "10.1.0.2"));
    ck_assert_str_eq(settings.values[NIC_ENV_NCCL_SOCKETS], "=eth0");
    ck_assert_str_eq(settings.values[NIC_ENV_GLOO], "eth0");
    ck_assert_str_eq(settings.values[NIC_ENV_OPEN_MPI], "eth0");
    ck_assert_str_eq(settings.values[NIC_ENV_NCCL_RDMA], "=mlx5_0:1,mlx5_1:1");
    ck_assert_str_eq(settings.values[NIC_ENV_UCX], "mlx5_0:1,mlx5_1:1,eth0");
    nics[1].addresses[nics[1].address_count++] = address("10.9.0.2/24");
    ck_assert(!choose(nics, 3, NULL, "10.1.0.254", "10.1.0.2"));
}
END_TEST

START_TEST(what_is_asked_for_is_told_whatever_the_route)
{
    struct nic nics[] = {interface("eth0", "", 0, "10.1.0.2/24"), interface("eth1", "", 0, "10.2.0.2/24"),
                         interface("eth2", "", 0, "fd00::2/64"), interface("eth3", "", 0, "")};
    ck_assert(choose(nics, 4, "eth1,fd00::/8", "10.1.0.254", "10.1.0.2"));
    ck_assert_str_eq(settings.values[NIC_ENV_GLOO], "eth1,eth2");
    ck_assert(!choose(nics, 4, "eth3", "10.1.0.254", "10.1.0.2")); /* has no address */
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nics");
    tcase_add_test(tcase, what_the_command_line_names_is_told);
    tcase_add_test(tcase, what_the_user_set_stays_and_is_not_listed);
    tcase_add_loop_test(tcase, the_nearest_to_the_user_is_asked, 0,
                        sizeof(authorities) / sizeof(authorities[0]));
    tcase_add_test(tcase, too_long_a_word_of_the_user_is_not_guessed_at);
    tcase_add_loop_test(tcase, other_steps_are_left_alone, 0, sizeof(left_alone) / sizeof(left_alone[0]));
    tcase_add_test(tcase, what_cannot_be_had_is_told_once_a_node);
    tcase_add_loop_test(tcase, an_odd_launching_node_is_not_believed, 0,
                        sizeof(odd_launchers) / sizeof(odd_launchers[0]));
    tcase_add_test(tcase, an_outer_steps_word_is_replaced_or_taken_out);
    tcase_add_test(tcase, a_task_that_cannot_be_told_runs_as_it_is);
    tcase_add_test(tcase, the_launching_nodes_subnet_is_chosen);
    tcase_add_test(tcase, what_is_not_sure_is_not_told);
    tcase_add_test(tcase, slurms_own_network_is_not_told_where_there_is_a_faster_one);
    tcase_add_test(tcase, beside_cards_without_addresses_a_slow_interface_will_do);
    tcase_add_test(tcase, what_is_asked_for_is_told_whatever_the_route);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("task_network", fill);
}

#endif
