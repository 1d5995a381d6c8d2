/* test_env_export.c: what hvd writes into the environment gives way to users. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "net/env_export.h"

static struct env_export exported;
static struct nic_env settings;

static void begin(void)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        unsetenv(nic_env_names[id]);
    memset(&exported, 0, sizeof(exported));
    memset(&settings, 0, sizeof(settings));
    strncpy(settings.values[NIC_ENV_GLOO], "eth0", NIC_ENV_BYTES - 1);
    strncpy(settings.values[NIC_ENV_UCX], "mlx5_0:1", NIC_ENV_BYTES - 1);
}

static void expect(enum nic_env_id id, const char *value)
{
    const char *found = getenv(nic_env_names[id]);
    ck_assert_msg(value == NULL ? found == NULL : found != NULL && strcmp(found, value) == 0, "%s=%s",
                  nic_env_names[id], found == NULL ? "(nothing)" : found);
}

START_TEST(what_users_set_stays)
{
    begin();
    setenv("GLOO_SOCKET_IFNAME", "eth7", 1);
    ck_assert_int_eq(env_export_write(&exported, &settings, NULL), HVD_OK);
    expect(NIC_ENV_GLOO, "eth7");
    expect(NIC_ENV_UCX, "mlx5_0:1");
    expect(NIC_ENV_NCCL_SOCKETS, NULL);
    env_export_withdraw(&exported);
    expect(NIC_ENV_GLOO, "eth7");
    expect(NIC_ENV_UCX, NULL);
}
END_TEST

START_TEST(what_users_exclude_is_their_word_too)
{
    begin();
    strncpy(settings.values[NIC_ENV_OPEN_MPI], "eth0", NIC_ENV_BYTES - 1);
    setenv("OMPI_MCA_btl_tcp_if_exclude", "docker0", 1);
    ck_assert_int_eq(env_export_write(&exported, &settings, NULL), HVD_OK);
    expect(NIC_ENV_OPEN_MPI, NULL);
    expect(NIC_ENV_GLOO, "eth0");
}
END_TEST

START_TEST(another_choice_replaces_ours)
{
    begin();
    ck_assert_int_eq(env_export_write(&exported, &settings, NULL), HVD_OK);
    env_export_withdraw(&exported);
    strncpy(settings.values[NIC_ENV_GLOO], "eth1", NIC_ENV_BYTES - 1);
    ck_assert_int_eq(env_export_write(&exported, &settings, NULL), HVD_OK);
    expect(NIC_ENV_GLOO, "eth1");
}
END_TEST

START_TEST(what_users_changed_since_is_theirs)
{
    begin();
    ck_assert_int_eq(env_export_write(&exported, &settings, NULL), HVD_OK);
    setenv("GLOO_SOCKET_IFNAME", "eth9", 1);
    env_export_withdraw(&exported);
    expect(NIC_ENV_GLOO, "eth9");
    expect(NIC_ENV_UCX, NULL);
}
END_TEST

START_TEST(what_a_launcher_set_is_not_a_users)
{
    begin();
    setenv("GLOO_SOCKET_IFNAME", "eth5", 1);
    setenv("UCX_NET_DEVICES", "eth6", 1); /* the user's own, since */
    setenv("NCCL_SOCKET_IFNAME", "=eth5", 1);
    setenv("HVD_NETWORK_SET", "NCCL_SOCKET_IFNAME==eth5;GLOO_SOCKET_IFNAME=eth5;UCX_NET_DEVICES=eth5", 1);
    env_export_withdraw(&exported);
    expect(NIC_ENV_GLOO, NULL);
    expect(NIC_ENV_NCCL_SOCKETS, NULL);
    expect(NIC_ENV_UCX, "eth6");
    ck_assert_ptr_null(getenv("HVD_NETWORK_SET"));
}
END_TEST

START_TEST(a_list_that_no_launcher_writes_changes_nothing)
{
    begin();
    setenv("GLOO_SOCKET_IFNAME", "eth5", 1);
    setenv("HVD_NETWORK_SET", "GLOO_SOCKET_IFNAME=eth5;PATH", 1);
    env_export_withdraw(&exported);
    expect(NIC_ENV_GLOO, "eth5");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("env_export");
    tcase_add_test(tcase, what_users_set_stays);
    tcase_add_test(tcase, what_users_exclude_is_their_word_too);
    tcase_add_test(tcase, another_choice_replaces_ours);
    tcase_add_test(tcase, what_users_changed_since_is_theirs);
    tcase_add_test(tcase, what_a_launcher_set_is_not_a_users);
    tcase_add_test(tcase, a_list_that_no_launcher_writes_changes_nothing);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("env_export", fill);
}
