/* test_machine_small.c: machines written here as XML, at the limits of what is translated, and what a live
 * one reads from /sys and /proc. */
#include "config.h"
#include "unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "temp_folder.h"
#include "topo/machine_hwloc.h"

/* The attributes that most objects have; their numbers are the CPUs twice, and the memory nodes twice. */
#define SETS        "cpuset=\"0x%x\" complete_cpuset=\"0x%x\" nodeset=\"0x%x\" complete_nodeset=\"0x%x\""
#define COUNT(rows) ((int)(sizeof(rows) / sizeof(rows[0])))

static char xml[1 << 18];

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    size_t used = strlen(xml);
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(xml + used, sizeof(xml) - used, format, arguments);
    va_end(arguments);
    ck_assert_int_lt(bytes, (int)(sizeof(xml) - used));
}

/* Each object gets a number of its own. */
static int next_index(void)
{
    static int last;
    return ++last;
}

static void open_machine(unsigned int cpus, unsigned int nodes)
{
    xml[0] = 0;
    add("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\" allowed_cpuset=\"0x%x\" "
        "allowed_nodeset=\"0x%x\" gp_index=\"%d\" " SETS ">\n",
        cpus, nodes, next_index(), cpus, cpus, nodes, nodes);
}

static void add_node(int index, unsigned int cpus, const char *bytes, const char *subtype)
{
    add("<object type=\"NUMANode\" os_index=\"%d\" gp_index=\"%d\" local_memory=\"%s\" %s " SETS "/>\n",
        index, next_index(), bytes, subtype, cpus, cpus, 1U << index, 1U << index);
}

static void add_pu(int index, unsigned int nodes)
{
    add("<object type=\"PU\" os_index=\"%d\" gp_index=\"%d\" " SETS "/>\n", index, next_index(), 1U << index,
        1U << index, nodes, nodes);
}

static void open_pci(const char *id, const char *type)
{
    add("<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"%s\" pci_type=\"%s\" pci_link_speed=\"0.0\">\n",
        next_index(), id, type);
}

static void close_object(void)
{
    add("</object>\n");
}

/* One CPU and its memory; devices follow. */
static void open_small_machine(void)
{
    open_machine(1, 1);
    add_node(0, 1, "1073741824", "");
    add_pu(0, 1);
}

/* Close the machine, and load it. */
static int try_machine(bool live, struct machine **machinep, struct hvd_error *err)
{
    close_object();
    add("</topology>\n");
    struct machine_source source = {.xml = xml, .xml_bytes = strlen(xml), .live = live, .root = folder};
    setenv("HWLOC_PLUGINS_PATH", "", 1);
    *machinep = NULL;
    return machine_load(&source, machinep, err);
}

static struct machine *load_written(bool live)
{
    struct machine *machine;
    struct hvd_error err = {""};
    ck_assert_msg(try_machine(live, &machine, &err) == HVD_OK, "%s", err.text);
    return machine;
}

static void must_refuse(const char *why)
{
    struct machine *machine;
    struct hvd_error err = {""};
    ck_assert_int_eq(try_machine(false, &machine, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
    ck_assert_ptr_null(machine);
}

/* ---- Cores and memory ---- */

static const struct {
    const char *bytes[3], *subtype; /* of the third node */
    const char *mems;
} memories[] = {
    {{"1024", "1024", "1024"}, "", "0-2"},
    {{"1024", "0", "1024"}, "", "0,2"}, /* one without memory */
    {{"0", "0", "0"}, "", "0-2"},       /* unknown, as in a topology that describes none */
    {{"1024", "1024", "1024"}, "subtype=\"GPUMemory\"", "0-1"},
    {{"1024", "1024", "1024"}, "subtype=\"HBM\"", "0-2"},
};

START_TEST(memory_is_that_of_the_host)
{
    char text[64];
    open_machine(1, 7);
    for (int i = 0; i < 3; i++)
        add_node(i, 1, memories[_i].bytes[i], i == 2 ? memories[_i].subtype : "");
    add_pu(0, 7);
    struct machine *machine = load_written(false);
    ck_assert_str_eq(bitmap_text(&machine->mems, text, sizeof(text)), memories[_i].mems);
    ck_assert(bitmap_is_equal(&machine->allowed_mems, &machine->mems));
    machine_destroy(machine);
}
END_TEST

/* Memory that no CPU is near belongs to no domain. */
START_TEST(memory_without_cpus_makes_no_domain)
{
    open_machine(3, 3);
    add_node(0, 3, "1024", "");
    add_node(1, 0, "1024", "");
    add_pu(0, 1);
    add_pu(1, 1);
    struct machine *machine = load_written(false);
    ck_assert_int_eq(machine->domain_count[DOMAIN_NUMA], 1);
    ck_assert_int_eq(machine->numa_mbps, 0);
    ck_assert_int_eq(machine->domains[DOMAIN_NUMA][0].os_index, 0);
    ck_assert_int_eq(machine->domains[DOMAIN_NUMA][0].bytes, 1024);
    machine_destroy(machine);
}
END_TEST

START_TEST(without_caches_the_numa_nodes_take_their_place)
{
    open_machine(3, 3);
    for (int i = 0; i < 2; i++) {
        add("<object type=\"Group\" gp_index=\"%d\" " SETS ">\n", next_index(), 1U << i, 1U << i, 1U << i,
            1U << i);
        add_node(i, 1U << i, "1024", "");
        add_pu(i, 1U << i);
        close_object();
    }
    struct machine *machine = load_written(false);
    ck_assert(!machine->has_l3);
    ck_assert_int_eq(machine->domain_count[DOMAIN_NUMA], 2);
    ck_assert_int_eq(machine->domain_count[DOMAIN_L3], 2);
    for (int i = 0; i < 2; i++) {
        char text[64];
        const struct machine_domain *domain = &machine->domains[DOMAIN_L3][i];
        ck_assert_str_eq(bitmap_text(&domain->cpus, text, sizeof(text)), i == 0 ? "0" : "1");
        ck_assert_str_eq(bitmap_text(&domain->mems, text, sizeof(text)), i == 0 ? "0" : "1");
        ck_assert_int_eq(machine->cores[i].domain[DOMAIN_L3], i);
    }
    machine_destroy(machine);
}
END_TEST

/* A core of [threads] hardware threads, with numbers from [first]. */
static void add_wide_core(int first, int threads)
{
    char cpus[2048] = "";
    for (int i = first; i < first + threads; i++) { /* hwloc writes words of 32 bits, the highest first */
        size_t used = 0;
        for (int word = i / 32; word >= 0; word--)
            used += (size_t)snprintf(cpus + used, sizeof(cpus) - used, "%s0x%08x", word < i / 32 ? "," : "",
                                     word == i / 32 ? 1U << i % 32 : 0);
    }
    xml[0] = 0;
    if (threads > 1)
        snprintf(cpus, sizeof(cpus), "0x%08x", (1U << threads) - 1);
    add("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\">\n");
    for (int level = 0; level < 2; level++)
        add("<object type=\"%s\" os_index=\"0\" gp_index=\"%d\" allowed_cpuset=\"%s\" "
            "allowed_nodeset=\"0x1\" "
            "cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"0x1\" complete_nodeset=\"0x1\">\n%s",
            level == 0 ? "Machine" : "Core", next_index(), cpus, cpus, cpus, "");
    for (int i = first; i < first + threads; i++) {
        if (threads > 1)
            snprintf(cpus, sizeof(cpus), "0x%08x", 1U << i);
        add("<object type=\"PU\" os_index=\"%d\" gp_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
            "nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n",
            i, next_index(), cpus, cpus);
    }
    close_object();
    add("<object type=\"NUMANode\" os_index=\"0\" gp_index=\"%d\" local_memory=\"1\" cpuset=\"0x1\" "
        "complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n",
        next_index());
}

START_TEST(cores_have_limits)
{
    add_wide_core(0, MACHINE_CORE_CPUS);
    struct machine *machine = load_written(false);
    ck_assert_int_eq(machine->core_count, 1);
    ck_assert_int_eq(machine->cores[0].cpu_count, MACHINE_CORE_CPUS);
    machine_destroy(machine);
    add_wide_core(0, MACHINE_CORE_CPUS + 1);
    must_refuse("a core of more than 8 hardware threads");
    add_wide_core(BITMAP_BITS - 1, 1);
    machine = load_written(false);
    ck_assert_int_eq(machine->cores[0].cpus[0], BITMAP_BITS - 1);
    machine_destroy(machine);
    add_wide_core(BITMAP_BITS, 1);
    must_refuse("the topology has CPU");
}
END_TEST

START_TEST(sets_have_limits)
{
    hwloc_bitmap_t from = hwloc_bitmap_alloc();
    struct bitmap to = {{1}};
    ck_assert_int_eq(bitmap_from_hwloc(NULL, &to), 0);
    ck_assert(bitmap_is_empty(&to));
    ck_assert_int_eq(bitmap_from_hwloc(from, &to), 0);
    ck_assert(bitmap_is_empty(&to));
    hwloc_bitmap_set(from, 3);
    hwloc_bitmap_set(from, BITMAP_BITS - 1);
    ck_assert_int_eq(bitmap_from_hwloc(from, &to), 0);
    ck_assert(bitmap_is_set(&to, 3) && bitmap_is_set(&to, BITMAP_BITS - 1));
    ck_assert_int_eq(bitmap_weight(&to), 2);
    hwloc_bitmap_set(from, BITMAP_BITS);
    ck_assert_int_eq(bitmap_from_hwloc(from, &to), -1);
    hwloc_bitmap_set_range(from, 0, -1);
    ck_assert_int_eq(bitmap_from_hwloc(from, &to), -1);
    hwloc_bitmap_free(from);
}
END_TEST

START_TEST(long_xml_is_refused)
{
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    struct machine_source source = {.xml = xml, .xml_bytes = MACHINE_XML_BYTES + 1};
    ck_assert_int_eq(machine_load(&source, &machine, &err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "the XML: a topology of more than 64 MiB");
}
END_TEST

static const struct {
    const char *from, *to;
} printable[] = {{"short", "short"},
                 {"1234567", "1234567"},
                 {"12345678", "1234567"},
                 {"a\tb\x7f", "a?b?"},
                 {"ends   ", "ends"},
                 {"~ !", "~ !"},
                 {"   ", ""},
                 {"", ""}};

START_TEST(texts_are_cut_and_printable)
{
    char to[16];
    memset(to, 'x', sizeof(to));
    copy_printable(to, 8, printable[_i].from);
    ck_assert_str_eq(to, printable[_i].to);
    ck_assert_int_eq(to[8], 'x');
}
END_TEST

/* ---- Devices ---- */

/* The nearest bridges of a deep device do not count: paths are compared from the top. */
START_TEST(deep_devices_keep_the_upper_bridges)
{
    static const int depths[] = {1, PCI_MAX_BRIDGES, PCI_MAX_BRIDGES + 1, 70};
    for (int i = 0; i < COUNT(depths); i++) {
        open_small_machine();
        for (int k = 0; k < depths[i]; k++)
            add("<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"%s\" depth=\"%d\" "
                "bridge_pci=\"0000:[%02x-ff]\" pci_busid=\"0000:%02x:00.0\" pci_type=\"0604 [8086:1234] "
                "[0000:0000] 00\" pci_link_speed=\"0.0\">\n",
                next_index(), k == 0 ? "0-1" : "1-1", k, k + 1, k);
        open_pci("0000:fe:00.0", "0302 [10de:2330] [0000:0000] a1");
        for (int k = 0; k <= depths[i]; k++)
            close_object();
        struct machine *machine = load_written(false);
        ck_assert_int_eq(machine->gpu_count, 1);
        const struct pci_device *pci = &machine->gpus[0].pci;
        ck_assert_int_eq(pci->bridge_count, depths[i] < PCI_MAX_BRIDGES ? depths[i] : PCI_MAX_BRIDGES);
        for (int k = 1; k < pci->bridge_count && depths[i] <= 64; k++)
            ck_assert_int_ne(pci->bridges[k], pci->bridges[k - 1]);
        machine_destroy(machine);
    }
}
END_TEST

START_TEST(devices_have_limits)
{
    for (int more = 0; more < 2; more++) {
        open_small_machine();
        for (int i = 0; i < MACHINE_MAX_GPUS + more; i++) {
            char id[32];
            snprintf(id, sizeof(id), "0000:%02x:00.0", (unsigned int)i + 1);
            open_pci(id, "0302 [10de:2330] [0000:0000] a1");
            close_object();
        }
        if (more > 0) {
            must_refuse("more than 64 GPUs");
            continue;
        }
        struct machine *machine = load_written(false);
        ck_assert_int_eq(machine->gpu_count, MACHINE_MAX_GPUS);
        machine_destroy(machine);
    }
}
END_TEST

/* An interface or RDMA device below the PCI device that is open. */
static void add_osdev(const char *name, int type, const char *infos)
{
    add("<object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"%d\">%s</object>\n", next_index(),
        name, type, infos);
}

#define INFO(name, value) "<info name=\"" name "\" value=\"" value "\"/>"
#define NETWORK           2 /* hwloc's types of OS devices */
#define OPENFABRICS       3

START_TEST(cards_are_taken_apart)
{
    open_small_machine();
    add_osdev("tun0", NETWORK, "");
    open_pci("0000:02:00.0", "0207 [15b3:101b] [0000:0000] 00"); /* two interfaces, one RDMA device */
    add_osdev("ib1", NETWORK, INFO("Port", "2"));
    add_osdev("ib0", NETWORK, INFO("Port", "1"));
    add_osdev("mlx5_0", OPENFABRICS, INFO("Port1State", "4") INFO("Port2State", "1"));
    close_object();
    open_pci("0000:01:00.0", "0208 [8086:24f0] [0000:0000] 00");
    add_osdev("hfi1_0", OPENFABRICS, INFO("Port1State", "4"));
    close_object();
    open_pci("0000:03:00.0", "0200 [8086:1572] [0000:0000] 00"); /* no driver */
    close_object();
    open_pci("0000:04:00.0", "0c06 [15b3:1017] [0000:0000] 00");
    close_object();
    open_pci("0000:05:00.0", "0108 [144d:a80a] [0000:0000] 00"); /* a disk */
    close_object();
    open_pci("0000:06:00.0", "1200 [1d0f:efa0] [0000:0000] 00"); /* an accelerator that has an interface */
    add_osdev("eth9", NETWORK, "");
    close_object();
    open_pci("0000:07:00.0", "0207 [15b3:101b] [0000:0000] 00"); /* two RDMA devices, no interface */
    add_osdev("mlx5_2", OPENFABRICS, "");
    add_osdev("mlx5_1", OPENFABRICS, "");
    close_object();
    add_osdev("dummy0", NETWORK, "");
    struct machine *machine = load_written(false);
    static const struct {
        const char *id, *netdev, *verbs;
        enum nic_fabric fabric;
        enum nic_link link;
        int port;
    } expected[] = {
        {"0000:01:00.0", "", "hfi1_0", NIC_OMNIPATH, NIC_LINK_UP, 0},
        {"0000:02:00.0", "ib0", "mlx5_0", NIC_INFINIBAND, NIC_LINK_UP, 1},
        {"0000:02:00.0", "ib1", "mlx5_0", NIC_INFINIBAND, NIC_LINK_DOWN, 2},
        {"0000:03:00.0", "", "", NIC_ETHERNET, NIC_LINK_UNKNOWN, 0},
        {"0000:04:00.0", "", "", NIC_INFINIBAND, NIC_LINK_UNKNOWN, 0},
        {"0000:06:00.0", "eth9", "", NIC_OTHER, NIC_LINK_UNKNOWN, 0},
        {"0000:07:00.0", "", "mlx5_1", NIC_INFINIBAND, NIC_LINK_UNKNOWN, 0},
        {"0000:07:00.0", "", "mlx5_2", NIC_INFINIBAND, NIC_LINK_UNKNOWN, 0},
        {"", "dummy0", "", NIC_OTHER, NIC_LINK_UNKNOWN, 0},
        {"", "tun0", "", NIC_OTHER, NIC_LINK_UNKNOWN, 0},
    };
    ck_assert_int_eq(machine->nic_count, COUNT(expected));
    for (int i = 0; i < COUNT(expected); i++) {
        const struct nic *nic = &machine->nics[i];
        ck_assert_str_eq(nic->pci.id, expected[i].id);
        ck_assert_str_eq(nic->netdev, expected[i].netdev);
        ck_assert_str_eq(nic->verbs, expected[i].verbs);
        ck_assert_int_eq(nic->fabric, expected[i].fabric);
        ck_assert_int_eq(nic->link, expected[i].link);
        ck_assert_int_eq(nic->port, expected[i].port);
        ck_assert(bitmap_is_equal(&nic->pci.cpus, &machine->cpus));
        ck_assert(bitmap_is_equal(&nic->pci.mems, &machine->mems));
    }
    machine_destroy(machine);
}
END_TEST

START_TEST(network_devices_have_limits)
{
    for (int more = 0; more < 2; more++) {
        open_small_machine();
        open_pci("0000:01:00.0", "0200 [8086:1572] [0000:0000] 00");
        for (int i = 0; i < NIC_MAX - 1 + more; i++) {
            char name[32];
            snprintf(name, sizeof(name), "eth%d", i);
            add_osdev(name, NETWORK, "");
        }
        close_object();
        add_osdev("tun0", NETWORK, "");
        if (more > 0) {
            must_refuse("network devices; that is not supported");
            continue;
        }
        struct machine *machine = load_written(false);
        ck_assert_int_eq(machine->nic_count, NIC_MAX);
        machine_destroy(machine);
    }
}
END_TEST

/* ---- A live machine ---- */

static void expect_file(const struct machine_gpu *gpu, const char *path)
{
    char whole[128];
    snprintf(whole, sizeof(whole), "%s%s", folder, path);
    ck_assert_str_eq(gpu->file, path[0] == 0 ? "" : whole);
}

START_TEST(drivers_name_gpus_and_their_files)
{
    folder_put("proc/driver/nvidia/gpus/0000:02:00.0/information",
               "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-11\x01"
               "22\nDevice Minor: \t 3\n");
    folder_put("sys/bus/pci/devices/0000:01:00.0/unique_id", "5a5a\n");
    folder_put("sys/bus/pci/devices/0000:01:00.0/drm/card0/dev", "226:0\n");
    folder_put("sys/bus/pci/devices/0000:01:00.0/drm/renderD128/dev", "226:128\n");
    folder_put("sys/bus/pci/devices/0000:02:00.0/drm/renderD129/dev", "226:129\n");
    folder_put("sys/bus/pci/devices/0000:03:00.0/drm/renderD123456789/dev", "1\n"); /* too long */
    folder_put("sys/class/net/lo/ifindex", "1\n");
    folder_put("sys/class/net/lo/flags", "0x9\n");
    for (int live = 0; live < 2; live++) {
        open_small_machine();
        open_pci("0000:03:00.0", "0380 [1002:7408] [0000:0000] 02");
        close_object();
        open_pci("0000:02:00.0", "0302 [10de:2330] [0000:0000] a1");
        close_object();
        open_pci("0000:01:00.0", "0380 [1002:7408] [0000:0000] 02");
        close_object();
        struct machine *machine = load_written(live);
        ck_assert_int_eq(machine->gpu_count, 3);
        ck_assert_str_eq(machine->gpus[0].pci.id, "0000:01:00.0");
        ck_assert_str_eq(machine->gpus[0].uuid, live ? "GPU-5a5a" : "");
        expect_file(&machine->gpus[0], live ? "/dev/dri/renderD128" : "");
        ck_assert_str_eq(machine->gpus[1].pci.id, "0000:02:00.0");
        ck_assert_str_eq(machine->gpus[1].uuid, live ? "GPU-11?22" : "");
        expect_file(&machine->gpus[1], live ? "/dev/nvidia3" : "");
        ck_assert_str_eq(machine->gpus[2].uuid, "");
        expect_file(&machine->gpus[2], "");
        ck_assert_int_eq(machine->nic_count, live);
        if (live)
            ck_assert(bitmap_is_equal(&machine->nics[0].pci.cpus, &machine->cpus));
        machine_destroy(machine);
    }
}
END_TEST

/* One that hwloc knows is near some of the CPUs; one that only /sys knows may be near all of them. */
START_TEST(interfaces_outside_pci_are_near_cpus)
{
    char text[64];
    folder_put("sys/class/net/dummy0/ifindex", "1\n");
    open_machine(3, 1);
    add_node(0, 3, "1024", "");
    for (unsigned int i = 0; i < 2; i++) {
        add("<object type=\"Group\" gp_index=\"%d\" " SETS ">\n", next_index(), 1U << i, 1U << i, 1U, 1U);
        add_pu((int)i, 1);
        if (i == 1)
            add_osdev("tun0", NETWORK, "");
        close_object();
    }
    struct machine *machine = load_written(true);
    ck_assert_int_eq(machine->nic_count, 2);
    ck_assert_str_eq(machine->nics[0].netdev, "dummy0");
    ck_assert_str_eq(bitmap_text(&machine->nics[0].pci.cpus, text, sizeof(text)), "0-1");
    ck_assert_str_eq(machine->nics[1].netdev, "tun0");
    ck_assert_str_eq(bitmap_text(&machine->nics[1].pci.cpus, text, sizeof(text)), "1");
    machine_destroy(machine);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("machine_small");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, folder_empty, NULL);
    tcase_add_loop_test(tcase, memory_is_that_of_the_host, 0, COUNT(memories));
    tcase_add_test(tcase, memory_without_cpus_makes_no_domain);
    tcase_add_test(tcase, without_caches_the_numa_nodes_take_their_place);
    tcase_add_test(tcase, cores_have_limits);
    tcase_add_test(tcase, sets_have_limits);
    tcase_add_test(tcase, long_xml_is_refused);
    tcase_add_loop_test(tcase, texts_are_cut_and_printable, 0, COUNT(printable));
    tcase_add_test(tcase, deep_devices_keep_the_upper_bridges);
    tcase_add_test(tcase, devices_have_limits);
    tcase_add_test(tcase, cards_are_taken_apart);
    tcase_add_test(tcase, network_devices_have_limits);
    tcase_add_test(tcase, drivers_name_gpus_and_their_files);
    tcase_add_test(tcase, interfaces_outside_pci_are_near_cpus);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("machine_small", fill);
}
