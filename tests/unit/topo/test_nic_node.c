/* test_nic_node.c: the interfaces and RDMA devices of this machine, with a /sys of the test's own making. */
#include "config.h"
#include "unit.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "temp_folder.h"
#include "topo/nic.h"

static struct nic nics[NIC_MAX];
static int count;

/* A file of that /sys, with its folders. */
static void put(const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fprintf(file, "%s\n", text), 0);
    fclose(file);
}

static void put_interface(const char *name, const char *file, const char *text)
{
    char path[200];
    snprintf(path, sizeof(path), "class/net/%s/%s", name, file);
    put(path, text);
}

static const struct nic *find(const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(nics[i].netdev, name) == 0 || strcmp(nics[i].verbs, name) == 0)
            return &nics[i];
    return NULL;
}

static void read_all(void)
{
    struct hvd_error err = {""};
    ck_assert_msg(nics_read_node(nics, NIC_MAX, folder, &count, &err) == HVD_OK, "%s", err.text);
}

START_TEST(the_kernel_knows_without_sys)
{
    read_all();
    const struct nic *lo = find("lo");
    ck_assert_ptr_nonnull(lo);
    ck_assert(lo->loopback && lo->addresses_known);
    ck_assert_int_eq(nics_select(nics, count, NULL, NULL), HVD_OK);
    ck_assert_int_eq(lo->exclusion, NIC_LOOPBACK);
}
END_TEST

/* /sys may be that of another network namespace: its interfaces are not ours. */
START_TEST(interfaces_of_others_are_left_out)
{
    put_interface("foreign0", "ifindex", "7");
    put_interface("foreign0", "address", "02:00:00:00:00:77");
    read_all();
    ck_assert_ptr_null(find("foreign0"));
    ck_assert_ptr_nonnull(find("lo"));
}
END_TEST

/* A name says nothing, its hardware address does. */
START_TEST(speeds_are_of_the_same_device)
{
    struct ifaddrs *interfaces = NULL;
    char address[64] = "", name[IF_NAMESIZE] = "";
    ck_assert_int_eq(getifaddrs(&interfaces), 0);
    for (const struct ifaddrs *i = interfaces; i != NULL && name[0] == 0; i = i->ifa_next) {
        struct sockaddr_ll link;
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_PACKET || (i->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        memcpy(&link, i->ifa_addr, sizeof(link));
        if (link.sll_halen != 6)
            continue;
        snprintf(name, sizeof(name), "%s", i->ifa_name);
        for (int k = 0; k < 6; k++)
            snprintf(address + strlen(address), 4, "%s%02x", k > 0 ? ":" : "", link.sll_addr[k]);
    }
    freeifaddrs(interfaces);
    if (name[0] == 0) {
        fprintf(stderr, "# not tried: this machine has no network interface\n");
        return;
    }
    put_interface(name, "ifindex", "2");
    put_interface(name, "device/vendor", "0x15b3");
    put_interface(name, "speed", "25000");
    put_interface(name, "address", address);
    read_all();
    ck_assert_int_eq(find(name)->mbps, 25000);
    put_interface(name, "address", "02:00:00:00:00:77");
    read_all();
    ck_assert_int_eq(find(name)->mbps, 0);
}
END_TEST

static void put_card(const char *name, const char *port, const char *state, const char *layer)
{
    char path[200];
    const char *const files[][2] = {{"state", state}, {"rate", "200 Gb/sec (4X HDR)"}, {"link_layer", layer}};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "class/infiniband/%s/ports/%s/%s", name, port, files[i][0]);
        put(path, files[i][1]);
    }
}

START_TEST(cards_are_found_with_their_ports)
{
    put_card("mlx5_0", "1", "4: ACTIVE", "InfiniBand");
    put_card("mlx5_1", "1", "4: ACTIVE", "InfiniBand");
    put_card("mlx5_1", "2", "1: DOWN", "Ethernet");
    put("class/infiniband/mlx5_0/device/net/lo/dev_port", "0");
    put("class/infiniband/mlx5_1/device/net/foreign0/dev_port", "0");
    read_all();
    ck_assert_ptr_eq(find("mlx5_0"), find("lo")); /* the interface above it is ours */
    ck_assert_int_eq(find("mlx5_0")->mbps, 200000);
    const struct nic *second = find("mlx5_1");
    ck_assert_str_eq(second->netdev, "");
    ck_assert_int_eq(second->port, 1);
    ck_assert_int_eq(second->link, NIC_LINK_UP);
    ck_assert_int_eq(second->fabric, NIC_INFINIBAND);
    ck_assert_str_eq(second[1].verbs, "mlx5_1");
    ck_assert_int_eq(second[1].port, 2);
    ck_assert_int_eq(second[1].link, NIC_LINK_DOWN);
    ck_assert_int_eq(nics_select(nics, count, NULL, NULL), HVD_OK);
    ck_assert_int_eq(second->exclusion, NIC_NOT_EXCLUDED);
    ck_assert_int_eq(second[1].exclusion, NIC_DOWN);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nic_node");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, folder_empty, folder_empty);
    tcase_add_test(tcase, the_kernel_knows_without_sys);
    tcase_add_test(tcase, interfaces_of_others_are_left_out);
    tcase_add_test(tcase, speeds_are_of_the_same_device);
    tcase_add_test(tcase, cards_are_found_with_their_ports);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nic_node", fill);
}
