/* test_nic.c: which interfaces are used and why not the others, and what /sys tells of them. */
#include "config.h"
#include "topo/nic.h"

#include <ifaddrs.h>
#include <string.h>
#include <sys/socket.h>

#include "made_nics.h"
#include "open_descriptors.h"
#include "temp_folder.h"

/* ---- Made up ---- */

static const struct {
    const char *netdev, *verbs;
    int64_t mbps;
    const char *net;
    enum nic_link link;
    const char *master;
    bool loopback;
    enum nic_exclusion exclusion;
    const char *why;
} cases[] = {
    {"eth0", "", 100000, "10.1.0.1/16", NIC_LINK_UP, "", false, NIC_NOT_EXCLUDED, "its link is up"},
    {"eth9", "", 0, "10.1.0.9/16", NIC_LINK_UNKNOWN, "", false, NIC_NOT_EXCLUDED, "is not known"},
    {"ib0", "mlx5_0", 200000, "", NIC_LINK_UP, "", false, NIC_NOT_EXCLUDED, "its link is up"},
    {"", "mlx5_1", 200000, "", NIC_LINK_UP, "", false, NIC_NOT_EXCLUDED, "its link is up"},
    {"lo", "", 0, "127.0.0.1/8", NIC_LINK_UP, "", true, NIC_LOOPBACK, "loopback"},
    {"docker0", "", 0, "172.17.0.1/16", NIC_LINK_UP, "", false, NIC_CONTAINER, "containers"},
    {"virbr0", "", 0, "192.168.122.1/24", NIC_LINK_UP, "", false, NIC_CONTAINER, "containers"},
    {"br-12ab", "", 0, "172.18.0.1/16", NIC_LINK_UP, "", false, NIC_CONTAINER, "containers"},
    {"veth7", "", 0, "fe80::1/64", NIC_LINK_UP, "", false, NIC_CONTAINER, "containers"},
    {"cni0", "", 0, "10.88.0.1/16", NIC_LINK_UP, "", false, NIC_CONTAINER, "containers"},
    {"podman1", "", 0, "10.89.0.1/16", NIC_LINK_UP, "", false, NIC_CONTAINER, "containers"},
    {"eth1", "", 100000, "10.2.0.1/16", NIC_LINK_DOWN, "", false, NIC_DOWN, "its link is down"},
    {"eth2", "", 100000, "", NIC_LINK_UP, "bond0", false, NIC_BOND_MEMBER, "part of bond0"},
    {"eth3", "", 100000, "fe80::2/64", NIC_LINK_UP, "", false, NIC_LINK_LOCAL, "link-local addresses only"},
    {"eth4", "", 100000, "169.254.1.1/16", NIC_LINK_UP, "", false, NIC_LINK_LOCAL,
     "link-local addresses only"},
    {"eth5", "", 100000, "", NIC_LINK_UP, "", false, NIC_LINK_LOCAL, "has no address"},
    {"eth6", "", 25000, "10.3.0.1/16", NIC_LINK_UP, "", false, NIC_SLOW,
     "25 Gb/s, less than half of mlx5_0's 200 Gb/s"},
    {"", "", 0, "", NIC_LINK_UNKNOWN, "", false, NIC_NO_DEVICE, "no driver"},
};

#define CASES ((int)(sizeof(cases) / sizeof(cases[0])))

static void make_cases(struct nic *nics)
{
    for (int i = 0; i < CASES; i++) {
        nics[i] = interface(cases[i].netdev, cases[i].verbs, cases[i].mbps, cases[i].net);
        nics[i].link = cases[i].link;
        nics[i].loopback = cases[i].loopback;
        snprintf(nics[i].master, sizeof(nics[i].master), "%s", cases[i].master);
    }
}

START_TEST(each_is_judged)
{
    static struct nic nics[CASES];
    make_cases(nics);
    ck_assert_int_eq(nics_select(nics, CASES, _i == 0 ? NULL : "auto", NULL), HVD_OK);
    for (int i = 0; i < CASES; i++) {
        ck_assert_msg(nics[i].exclusion == cases[i].exclusion, "%s: %d, %s", nic_name(&nics[i]),
                      nics[i].exclusion, nics[i].why);
        ck_assert_msg(strstr(nics[i].why, cases[i].why) != NULL, "%s: %s", nic_name(&nics[i]), nics[i].why);
    }
}
END_TEST

/* What is asked for is taken where it can be, whatever it is called. */
START_TEST(what_is_asked_for_is_kept)
{
    static struct nic nics[CASES];
    struct hvd_error err = {""};
    make_cases(nics);
    ck_assert_msg(nics_select(nics, CASES, "docker0,mlx5_1,10.3.0.0/16", &err) == HVD_OK, "%s", err.text);
    for (int i = 0; i < CASES; i++) {
        const char *name = nic_name(&nics[i]);
        bool asked = strcmp(name, "docker0") == 0 || strcmp(name, "mlx5_1") == 0 || strcmp(name, "eth6") == 0;
        ck_assert_msg((nics[i].exclusion == NIC_NOT_EXCLUDED) == asked, "%s: %s", name, nics[i].why);
        if (strcmp(name, "eth0") == 0)
            ck_assert_int_eq(nics[i].exclusion, NIC_NOT_LISTED);
        if (strcmp(name, "lo") == 0)
            ck_assert_int_eq(nics[i].exclusion, NIC_LOOPBACK);
    }
}
END_TEST

/* A subnet may also have interfaces that are down, before or after those that are up. */
START_TEST(a_subnet_is_kept_where_one_interface_is_up)
{
    static const char *const subnets[] = {"10.2.0.0/15", "10.0.0.0/8"};
    static struct nic nics[CASES];
    struct hvd_error err = {""};
    make_cases(nics);
    ck_assert_msg(nics_select(nics, CASES, subnets[_i], &err) == HVD_OK, "%s", err.text);
    for (int i = 0; i < CASES; i++) {
        if (strcmp(nics[i].netdev, "eth0") == 0)
            ck_assert_int_eq(nics[i].exclusion, _i == 0 ? NIC_NOT_LISTED : NIC_NOT_EXCLUDED);
        if (strcmp(nics[i].netdev, "eth1") == 0)
            ck_assert_int_eq(nics[i].exclusion, NIC_DOWN);
        if (strcmp(nics[i].netdev, "eth6") == 0)
            ck_assert_int_eq(nics[i].exclusion, NIC_NOT_EXCLUDED);
    }
}
END_TEST

static const struct {
    const char *address;
    bool local;
} locals[] = {
    {"fe80::1/64", true},     {"fe81::1/64", true},      {"febf::1/64", true},
    {"fec0::1/64", false},    {"fe40::1/64", false},     {"fd80::1/64", false},
    {"169.254.1.1/16", true}, {"169.253.1.1/16", false}, {"168.254.1.1/16", false},
};

START_TEST(link_local_addresses_are_known)
{
    struct nic_address own = address(locals[_i].address);
    ck_assert_int_eq(nic_is_link_local(&own), locals[_i].local);
}
END_TEST

static const struct {
    const char *asked, *sentence;
} refused[] = {
    {"eth77",
     "--hvd-nics=eth77: no network device of this node has that name; there are eth0, eth9, mlx5_0/ib0"},
    {"eth0,10.77.0.0/16", "--hvd-nics=10.77.0.0/16: no network device of this node is in that subnet"},
    {"eth1", "--hvd-nics=eth1: the link of eth1 is down"},
    {"eth0,eth0", "--hvd-nics=eth0,eth0: the value has a name twice; expected auto"},
    {"mlx5", "no network device of this node has that name"},
};

START_TEST(what_cannot_be_had_is_refused)
{
    static struct nic nics[CASES];
    struct hvd_error err = {""};
    make_cases(nics);
    ck_assert_int_eq(nics_select(nics, CASES, refused[_i].asked, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, refused[_i].sentence) != NULL, "%s", err.text);
    ck_assert_int_eq(nics[0].exclusion, NIC_NOT_EXCLUDED);
    ck_assert_int_eq(nics[6].exclusion, NIC_CONTAINER);
}
END_TEST

START_TEST(cards_without_a_name_are_not_offered)
{
    struct nic nics[2] = {interface("eth0", "", 100000, "10.1.0.1/16"), interface("", "", 0, "")};
    struct hvd_error err = {""};
    ck_assert_int_eq(nics_select(nics, 2, "eth7", &err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text,
                     "--hvd-nics=eth7: no network device of this node has that name; there are eth0");
    ck_assert_int_eq(nics_select(nics, 0, "eth7", &err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text,
                     "--hvd-nics=eth7: no network device of this node has that name; there are none");
}
END_TEST

/* ---- /sys ---- */

static void put_interface(const char *name, const char *flags, const char *state, const char *speed,
                          const char *type)
{
    const char *const files[][2] = {
        {"ifindex", "1\n"}, {"flags", flags}, {"operstate", state}, {"speed", speed}, {"type", type}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[200];
        snprintf(path, sizeof(path), "class/net/%s/%s", name, files[i][0]);
        folder_put(path, files[i][1]);
    }
}

static const struct nic *named(const struct nic *nics, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(nics[i].netdev, name) == 0)
            return &nics[i];
    ck_abort_msg("%s is not there", name);
}

START_TEST(sys_tells_links_and_speeds)
{
    static struct nic nics[16];
    char path[300];
    put_interface("eth0", "0x1003\n", "up\n", "25000\n", "1\n");
    folder_put("class/net/eth0/device/vendor", "0x15b3\n");
    folder_put("class/net/eth0/dev_port", "1\n");
    put_interface("eth1", "0x1003\n", "down\n", "-1\n", "1\n");
    put_interface("eth2", "0x1002\n", "unknown\n", "10000\n", "1\n");
    put_interface("lo", "0x9\n", "unknown\n", "", "772\n");
    put_interface("veth1", "0x1003\n", "up\n", "10000\n", "1\n");
    put_interface("bond0", "0x1403\n", "up\n", "50000\n", "1\n");
    folder_put("class/net/bond0/bonding/mode", "802.3ad 4\n");
    put_interface("eth3", "0x1803\n", "up\n", "25000\n", "1\n");
    snprintf(path, sizeof(path), "%s/class/net/eth3/master", folder);
    ck_assert_int_eq(symlink("../bond0", path), 0);
    put_interface("ib0", "0x1003\n", "up\n", "200000\n", "32\n");
    folder_put("class/net/bonding_masters", "bond0\n");
    folder_put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    folder_put("class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    folder_put("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    folder_put("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    nics[0] = interface("ib0", "mlx5_0", 0, "");
    nics[1] = interface("", "mlx5_1", 0, "");
    int count = nics_read_sys(nics, 2, 16, folder);
    ck_assert_int_eq(count, 9);
    const struct nic *eth0 = named(nics, count, "eth0");
    ck_assert_int_eq(eth0->mbps, 25000);
    ck_assert_int_eq(eth0->link, NIC_LINK_UP);
    ck_assert_int_eq(eth0->port, 2);
    ck_assert_int_eq(eth0->fabric, NIC_ETHERNET);
    ck_assert_int_eq(named(nics, count, "eth1")->link, NIC_LINK_DOWN);
    ck_assert_int_eq(named(nics, count, "eth1")->mbps, 0);
    ck_assert_int_eq(named(nics, count, "eth2")->link, NIC_LINK_DOWN);
    ck_assert(named(nics, count, "lo")->loopback);
    ck_assert_int_eq(named(nics, count, "veth1")->mbps, 0);
    ck_assert_int_eq(named(nics, count, "bond0")->mbps, 50000);
    ck_assert_str_eq(named(nics, count, "eth3")->master, "bond0");
    ck_assert_int_eq(nics[0].mbps, 200000);
    ck_assert_int_eq(nics[0].fabric, NIC_INFINIBAND);
    ck_assert_int_eq(nics[1].link, NIC_LINK_DOWN);
    ck_assert_int_eq(nics_read_sys(nics, 2, 3, folder), 3);
}
END_TEST

static const struct {
    enum nic_fabric known; /* from its PCI device */
    const char *type;      /* the kernel's, of the interface: 1 Ethernet, 32 InfiniBand, 512 PPP */
    enum nic_fabric fabric;
} fabrics[] = {
    {NIC_OTHER, "1\n", NIC_ETHERNET},        {NIC_OTHER, "512\n", NIC_OTHER},
    {NIC_OTHER, "32\n", NIC_INFINIBAND},     {NIC_ETHERNET, "32\n", NIC_INFINIBAND},
    {NIC_INFINIBAND, "1\n", NIC_INFINIBAND}, {NIC_OMNIPATH, "1\n", NIC_OMNIPATH},
};

START_TEST(pci_says_more_than_an_interface_of_ethernet)
{
    struct nic nic = interface("eth0", "", 0, "");
    put_interface("eth0", "0x1003\n", "up\n", "25000\n", fabrics[_i].type);
    nic.fabric = fabrics[_i].known;
    ck_assert_int_eq(nics_read_sys(&nic, 1, 1, folder), 1);
    ck_assert_int_eq(nic.fabric, fabrics[_i].fabric);
}
END_TEST

START_TEST(sys_is_closed_again)
{
    struct nic nic = interface("eth0", "", 0, "");
    put_interface("eth0", "0x1003\n", "up\n", "25000\n", "1\n");
    int before = open_descriptors();
    ck_assert_int_eq(nics_read_sys(&nic, 1, 1, folder), 1);
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

static const struct {
    const char *speed, *rate; /* of the interface; of the RDMA port, NULL: it does not say */
    int64_t mbps;
} speeds[] = {
    {"99999999\n", NULL, 99999999},
    {"100000000\n", NULL, 0},
    {"0\n", NULL, 0},
    {"-1\n", NULL, 0},
    {"25000\n", "0 Gb/sec\n", 25000},
    {"25000\n", "99999 Gb/sec\n", 99999000},
    {"25000\n", "1 Gb/sec\n", 1000},
    {"25000\n", "100000 Gb/sec\n", 25000},
};

START_TEST(what_can_be_no_speed_is_left_out)
{
    static struct nic nics[2];
    put_interface("ib0", "0x1003\n", "up\n", speeds[_i].speed, "32\n");
    folder_put("class/net/ib0/device/vendor", "0x15b3\n");
    if (speeds[_i].rate != NULL)
        folder_put("class/infiniband/mlx5_0/ports/1/rate", speeds[_i].rate);
    nics[0] = interface("ib0", "mlx5_0", 0, "");
    ck_assert_int_eq(nics_read_sys(nics, 1, 2, folder), 1);
    ck_assert_int_eq(nics[0].mbps, speeds[_i].mbps);
}
END_TEST

START_TEST(without_sys_nothing_is_known)
{
    struct nic nic = interface("eth0", "mlx5_0", 0, "");
    nic.link = NIC_LINK_UNKNOWN;
    ck_assert_int_eq(nics_read_sys(&nic, 1, 1, "/does/not/exist"), 1);
    ck_assert_int_eq(nic.link, NIC_LINK_UNKNOWN);
    ck_assert_int_eq(nic.mbps, 0);
}
END_TEST

/* The addresses that the kernel lists for an interface: its packet address does not count. */
static int listed_addresses(const char *name)
{
    struct ifaddrs *interfaces = NULL;
    int count = 0;
    ck_assert_int_eq(getifaddrs(&interfaces), 0);
    for (const struct ifaddrs *i = interfaces; i != NULL; i = i->ifa_next)
        count += strcmp(i->ifa_name, name) == 0 && i->ifa_addr != NULL &&
                 (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
    freeifaddrs(interfaces);
    return count;
}

START_TEST(loopback_has_its_addresses)
{
    struct nic nics[2] = {interface("lo", "", 0, "10.0.0.1/8"), interface("none0", "", 0, "10.0.0.1/8")};
    struct hvd_error err = {""};
    struct nic_address loopback = address("127.0.0.1/8");
    bool found = false;
    ck_assert_msg(nics_read_addresses(nics, 2, &err) == HVD_OK, "%s", err.text);
    int listed = listed_addresses("lo");
    ck_assert_int_eq(nics[0].address_count, listed < NIC_MAX_ADDRESSES ? listed : NIC_MAX_ADDRESSES);
    for (int i = 0; i < nics[0].address_count; i++) {
        const struct nic_address *seen = &nics[0].addresses[i];
        found = found ||
                (seen->family == AF_INET && seen->prefix == 8 && memcmp(seen->bytes, loopback.bytes, 4) == 0);
    }
    ck_assert(found || listed == 0); /* as where the tests run without a network */
    ck_assert_int_eq(nics[1].address_count, 0);
    ck_assert(nics[1].addresses_known);
}
END_TEST

/* ---- Speed ---- */

START_TEST(pci_limits_what_a_nic_carries)
{
    struct nic nic = interface("eth0", "", 0, "");
    ck_assert_int_eq(nic_mbps(&nic), 10000);
    nic.pci.mbps = 16000;
    ck_assert_int_eq(nic_mbps(&nic), 12000);
    nic.mbps = 10000;
    ck_assert_int_eq(nic_mbps(&nic), 10000);
    nic.mbps = 100000;
    ck_assert_int_eq(nic_mbps(&nic), 12000);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("nic");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, folder_empty, NULL);
    tcase_add_loop_test(tcase, each_is_judged, 0, 2);
    tcase_add_test(tcase, what_is_asked_for_is_kept);
    tcase_add_loop_test(tcase, what_cannot_be_had_is_refused, 0, sizeof(refused) / sizeof(refused[0]));
    tcase_add_loop_test(tcase, a_subnet_is_kept_where_one_interface_is_up, 0, 2);
    tcase_add_test(tcase, cards_without_a_name_are_not_offered);
    tcase_add_loop_test(tcase, link_local_addresses_are_known, 0, sizeof(locals) / sizeof(locals[0]));
    tcase_add_test(tcase, sys_tells_links_and_speeds);
    tcase_add_loop_test(tcase, pci_says_more_than_an_interface_of_ethernet, 0,
                        sizeof(fabrics) / sizeof(fabrics[0]));
    tcase_add_test(tcase, sys_is_closed_again);
    tcase_add_loop_test(tcase, what_can_be_no_speed_is_left_out, 0, sizeof(speeds) / sizeof(speeds[0]));
    tcase_add_test(tcase, without_sys_nothing_is_known);
    tcase_add_test(tcase, loopback_has_its_addresses);
    tcase_add_test(tcase, pci_limits_what_a_nic_carries);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("nic", fill);
}
