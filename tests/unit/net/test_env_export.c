/* test_env_export.c: what hvd writes into the environment gives way to users. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "net/env_export.h"

static struct exported exported;
static struct settings settings;

static void begin(void)
{
    for (int id = 0; id < SETTING_COUNT; id++)
        unsetenv(setting_variables[id]);
    memset(&exported, 0, sizeof(exported));
    memset(&settings, 0, sizeof(settings));
    strncpy(settings.values[SETTING_GLOO], "eth0", SETTING_BYTES - 1);
    strncpy(settings.values[SETTING_UCX], "mlx5_0:1", SETTING_BYTES - 1);
}

static void expect(enum setting_id id, const char *value)
{
    const char *found = getenv(setting_variables[id]);
    ck_assert_msg(value == NULL ? found == NULL : found != NULL && strcmp(found, value) == 0, "%s=%s",
                  setting_variables[id], found == NULL ? "(nothing)" : found);
}

START_TEST(what_users_set_stays)
{
    begin();
    setenv("GLOO_SOCKET_IFNAME", "eth7", 1);
    ck_assert_int_eq(exported_write(&exported, &settings, NULL), HVD_OK);
    expect(SETTING_GLOO, "eth7");
    expect(SETTING_UCX, "mlx5_0:1");
    expect(SETTING_NCCL_SOCKETS, NULL);
    exported_withdraw(&exported);
    expect(SETTING_GLOO, "eth7");
    expect(SETTING_UCX, NULL);
}
END_TEST

START_TEST(what_users_exclude_is_their_word_too)
{
    begin();
    strncpy(settings.values[SETTING_OPEN_MPI], "eth0", SETTING_BYTES - 1);
    setenv("OMPI_MCA_btl_tcp_if_exclude", "docker0", 1);
    ck_assert_int_eq(exported_write(&exported, &settings, NULL), HVD_OK);
    expect(SETTING_OPEN_MPI, NULL);
    expect(SETTING_GLOO, "eth0");
}
END_TEST

START_TEST(another_choice_replaces_ours)
{
    begin();
    ck_assert_int_eq(exported_write(&exported, &settings, NULL), HVD_OK);
    exported_withdraw(&exported);
    strncpy(settings.values[SETTING_GLOO], "eth1", SETTING_BYTES - 1);
    ck_assert_int_eq(exported_write(&exported, &settings, NULL), HVD_OK);
    expect(SETTING_GLOO, "eth1");
}
END_TEST

START_TEST(what_users_changed_since_is_theirs)
{
    begin();
    ck_assert_int_eq(exported_write(&exported, &settings, NULL), HVD_OK);
    setenv("GLOO_SOCKET_IFNAME", "eth9", 1);
    exported_withdraw(&exported);
    expect(SETTING_GLOO, "eth9");
    expect(SETTING_UCX, NULL);
}
END_TEST

START_TEST(what_a_launcher_set_is_not_a_users)
{
    begin();
    setenv("GLOO_SOCKET_IFNAME", "eth5", 1);
    setenv("UCX_NET_DEVICES", "eth6", 1); /* the user's own, since */
    setenv("NCCL_SOCKET_IFNAME", "=eth5", 1);
    setenv("HVD_NETWORK_SET", "NCCL_SOCKET_IFNAME==eth5;GLOO_SOCKET_IFNAME=eth5;UCX_NET_DEVICES=eth5", 1);
    exported_withdraw(&exported);
    expect(SETTING_GLOO, NULL);
    expect(SETTING_NCCL_SOCKETS, NULL);
    expect(SETTING_UCX, "eth6");
    ck_assert_ptr_null(getenv("HVD_NETWORK_SET"));
}
END_TEST

START_TEST(a_list_that_no_launcher_writes_changes_nothing)
{
    begin();
    setenv("GLOO_SOCKET_IFNAME", "eth5", 1);
    setenv("HVD_NETWORK_SET", "GLOO_SOCKET_IFNAME=eth5;PATH", 1);
    exported_withdraw(&exported);
    expect(SETTING_GLOO, "eth5");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("exported");
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
    return unit_run("exported", fill);
}
