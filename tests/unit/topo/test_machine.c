/* test_machine.c: what a machine is loaded as, from XML and of this node. */
#include "config.h"

#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorded_machines.h"
#include "topo/path.h"

static const struct shape {
    const char *name;
    int cores, packages, numas, l3s, gpus, nics;
    bool has_l3;
    const char *mems;
} shapes[] = {
    {"gpu8", 128, 2, 2, 16, 8, 10, true, "0-1"}, {"epyc4", 64, 1, 4, 8, 4, 4, true, "0-3"},
    {"power9", 44, 2, 2, 22, 6, 4, true, "0,8"}, {"cpu4", 48, 2, 4, 2, 0, 3, true, "0-3"},
    {"offline", 10, 2, 2, 2, 0, 0, true, "0-1"}, {"vm1", 1, 1, 1, 1, 0, 1, false, "0"},
};

START_TEST(shapes_are_as_written)
{
    const struct shape *shape = &shapes[_i];
    struct machine *machine = load_machine(shape->name);
    char text[64];
    ck_assert_str_eq(machine->name, strcmp(shape->name, "vm1") == 0 ? "vm1" : shape->name);
    ck_assert_int_eq(machine->core_count, shape->cores);
    ck_assert_int_eq(machine->domain_count[DOMAIN_PACKAGE], shape->packages);
    ck_assert_int_eq(machine->domain_count[DOMAIN_NUMA], shape->numas);
    ck_assert_int_eq(machine->domain_count[DOMAIN_L3], shape->l3s);
    ck_assert_int_eq(machine->has_l3, shape->has_l3);
    ck_assert_int_eq(machine->gpu_count, shape->gpus);
    ck_assert_int_eq(machine->nic_count, shape->nics);
    ck_assert_str_eq(bitmap_text(&machine->mems, text, sizeof(text)), shape->mems);
    machine_destroy(machine);
}
END_TEST

static const struct {
    int counts[DOMAIN_KINDS]; /* packages, NUMA nodes, L3 caches */
    enum domain_kind levels[DOMAIN_KINDS];
} sorted[] = {
    {{1, 2, 4}, {DOMAIN_PACKAGE, DOMAIN_NUMA, DOMAIN_L3}},
    {{1, 4, 2}, {DOMAIN_PACKAGE, DOMAIN_L3, DOMAIN_NUMA}},
    {{2, 1, 4}, {DOMAIN_NUMA, DOMAIN_PACKAGE, DOMAIN_L3}},
    {{2, 4, 1}, {DOMAIN_L3, DOMAIN_PACKAGE, DOMAIN_NUMA}},
    {{4, 1, 2}, {DOMAIN_NUMA, DOMAIN_L3, DOMAIN_PACKAGE}},
    {{4, 2, 1}, {DOMAIN_L3, DOMAIN_NUMA, DOMAIN_PACKAGE}},
    {{2, 2, 2}, {DOMAIN_PACKAGE, DOMAIN_NUMA, DOMAIN_L3}},
    {{2, 2, 1}, {DOMAIN_L3, DOMAIN_PACKAGE, DOMAIN_NUMA}},
    {{2, 1, 1}, {DOMAIN_NUMA, DOMAIN_L3, DOMAIN_PACKAGE}},
};

START_TEST(kinds_with_fewer_domains_come_first)
{
    struct machine machine = {.core_count = 0};
    enum domain_kind levels[DOMAIN_KINDS];
    memcpy(machine.domain_count, sorted[_i].counts, sizeof(machine.domain_count));
    machine_sort_levels(&machine, levels);
    for (int i = 0; i < DOMAIN_KINDS; i++)
        ck_assert_int_eq(levels[i], sorted[_i].levels[i]);
}
END_TEST

static const struct {
    const char *machine, *from, *to; /* a part of the file, and what stands there instead; of equal length */
    int64_t mbps;
} processors[] = {
    {"gpu8", "", "", 128000},
    {"power9", "", "", 256000},
    {"cpu4", "", "", 176000},
    {"cpu4", "value=\"143\"", "value=\"207\"", 320000},
    {"cpu4", "value=\"143\"", "value=\"206\"", 176000},
    {"cpu4", "value=\"143\"", "value=\"142\"", 80000},
    {"cpu4", "value=\"143\"", "value=\"085\"", 80000},
    {"cpu4", "value=\"143\"", "value=\"084\"", 48000},
    {"cpu4", "GenuineIntel", "CentaurHauls", 0},
};

/* NCCL's table of what joins the NUMA nodes. */
START_TEST(processors_are_joined_as_nccl_reckons)
{
    static char text[1 << 20];
    char path[1024];
    const char *folder = getenv("HVD_SOURCE"), *from = processors[_i].from;
    snprintf(path, sizeof(path), "%s/tests/data/topo/%s.xml", folder != NULL ? folder : ".",
             processors[_i].machine);
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "%s", path);
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[bytes] = 0;
    for (char *at = strstr(text, from); from[0] != 0 && at != NULL; at = strstr(at, from))
        memcpy(at, processors[_i].to, strlen(from));
    struct machine_source source = {.xml = text, .xml_bytes = bytes};
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    setenv("HWLOC_PLUGINS_PATH", "", 1);
    ck_assert_msg(machine_load(&source, &machine, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(machine->numa_mbps, processors[_i].mbps);
    machine_destroy(machine);
}
END_TEST

START_TEST(gpus_have_the_name_of_their_product)
{
    struct machine *machine = load_machine("epyc4");
    for (int i = 0; i < machine->gpu_count; i++)
        ck_assert_str_eq(machine->gpus[i].name, "Aldebaran/MI200 [Instinct MI250X]");
    machine_destroy(machine);
}
END_TEST

/* Each core is in one domain of each kind, and each domain is what its cores are. */
START_TEST(cores_and_domains_agree)
{
    struct machine *machine = load_machine(machine_names[_i]);
    struct bitmap seen = {{0}};
    for (int kind = 0; kind < DOMAIN_KINDS; kind++) {
        struct bitmap all = {{0}};
        for (int i = 0; i < machine->domain_count[kind]; i++) {
            ck_assert(!bitmap_intersects(&all, &machine->domains[kind][i].cpus));
            ck_assert(!bitmap_is_empty(&machine->domains[kind][i].mems));
            bitmap_or(&all, &machine->domains[kind][i].cpus);
        }
        ck_assert(bitmap_is_equal(&all, &machine->cpus));
    }
    for (int i = 0; i < machine->core_count; i++)
        for (int k = 0; k < machine->cores[i].cpu_count; k++) {
            int cpu = machine->cores[i].cpus[k];
            ck_assert(!bitmap_is_set(&seen, cpu));
            bitmap_set(&seen, cpu);
            for (int kind = 0; kind < DOMAIN_KINDS; kind++)
                ck_assert(bitmap_is_set(&machine->domains[kind][machine->cores[i].domain[kind]].cpus, cpu));
        }
    ck_assert(bitmap_is_equal(&seen, &machine->cpus));
    machine_destroy(machine);
}
END_TEST

START_TEST(gpus_are_found_by_any_spelling)
{
    static const char *const names[] = {"0000:13:00.0", "00000000:13:00.0", "13:00.0", "0000:13:00.0"};
    static const char *const wrong[] = {"0000:14:00.0",  "13:00", "",
                                        "0000:13:00.0x", "gpu",   "00000000000000013:00.0"};
    struct machine *machine = load_machine("gpu8");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_int_eq(machine_find_gpu(machine, names[i]), 0);
    ck_assert_int_eq(machine_find_gpu(machine, "0000:B5:00.0"), 7);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_int_eq(machine_find_gpu(machine, wrong[i]), -1);
    machine_destroy(machine);
}
END_TEST

/* What a server shows its console with is none. */
START_TEST(screens_are_no_gpus)
{
    static const struct {
        const char *type;
        int gpus;
    } cards[] = {
        {"0300 [10de:2204] [0000:0000] a1", 1}, {"0302 [10de:2330] [0000:0000] a1", 1},
        {"0380 [1002:7408] [0000:0000] 02", 1}, {"1200 [1002:74a1] [0000:0000] 00", 1},
        {"0300 [1002:66a1] [0000:0000] 00", 1}, {"0300 [1a03:2000] [0000:0000] 41", 0},
        {"0300 [102b:0522] [0000:0000] 05", 0}, {"0300 [1002:515e] [0000:0000] 02", 0},
        {"0300 [1002:4752] [0000:0000] 27", 0}, {"0403 [10de:2330] [0000:0000] a1", 0},
        {"0680 [10de:1af1] [0000:0000] a1", 0}, {"0300 [8086:56c0] [0000:0000] 08", 0},
    };
    for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
        char xml[4096];
        struct machine *machine = NULL;
        struct hvd_error err = {""};
        int bytes = snprintf(xml, sizeof(xml),
                             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
                             "\"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
                             "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
                             "allowed_cpuset=\"0x1\" nodeset=\"0x1\""
                             " complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\" gp_index=\"1\">\n"
                             "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" "
                             "complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\""
                             " gp_index=\"2\" local_memory=\"1073741824\"/>\n"
                             "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
                             "nodeset=\"0x1\" complete_nodeset=\"0x1\""
                             " gp_index=\"3\"/>\n"
                             "<object type=\"PCIDev\" gp_index=\"4\" pci_busid=\"0000:01:00.0\" "
                             "pci_type=\"%s\" pci_link_speed=\"0.0\"/>\n"
                             "</object>\n</topology>\n",
                             cards[i].type);
        struct machine_source source = {.xml = xml, .xml_bytes = (size_t)bytes};
        setenv("HWLOC_PLUGINS_PATH", "", 1);
        ck_assert_msg(machine_load(&source, &machine, &err) == HVD_OK, "%s", err.text);
        ck_assert_msg(machine->gpu_count == cards[i].gpus, "%s: %d GPUs", cards[i].type, machine->gpu_count);
        ck_assert_int_eq(machine->core_count, 1);
        machine_destroy(machine);
    }
}
END_TEST

START_TEST(paths_are_as_nccl_has_them)
{
    struct machine *machine = load_machine("gpu8");
    const struct machine_gpu *gpus = machine->gpus;
    /* 0 and 1 are behind one switch; 0 and 2 in one NUMA node; 0 and 4 not */
    ck_assert_int_eq(path_between(&gpus[0].pci, &gpus[1].pci), PATH_PIX);
    ck_assert_int_eq(path_between(&gpus[0].pci, &gpus[2].pci), PATH_PHB);
    ck_assert_int_eq(path_between(&gpus[0].pci, &gpus[4].pci), PATH_SYS);
    ck_assert_int_eq(path_to_cpus(machine, &gpus[0].pci, &machine->domains[DOMAIN_NUMA][0].cpus), 0);
    ck_assert_int_eq(path_to_cpus(machine, &gpus[0].pci, &machine->domains[DOMAIN_NUMA][1].cpus), 2);
    machine_destroy(machine);

    /* behind a switch, but the GPU has one more on its card */
    struct pci_device gpu = {.bridge_count = 6, .bridges = {0, 1, 2, 3, 4, 5}};
    struct pci_device nic = {.bridge_count = 4, .bridges = {0, 1, 2, 6}};
    ck_assert_int_eq(path_between(&gpu, &nic), PATH_PXB);

    machine = load_machine("epyc4");
    ck_assert_int_eq(path_to_cpus(machine, &machine->gpus[0].pci, &machine->domains[DOMAIN_NUMA][0].cpus), 1);
    machine_destroy(machine);
}
END_TEST

/* Across NUMA nodes a path carries no more than what joins them. */
START_TEST(paths_carry_what_their_slowest_link_does)
{
    struct machine *machine = load_machine("gpu8");
    struct nic *nic = &machine->nics[2];
    ck_assert_str_eq(nic->verbs, "mlx5_0");
    ck_assert_int_eq(machine->numa_mbps, 128000);
    nic->mbps = 400000;
    ck_assert_int_gt(path_mbps(machine, &machine->gpus[0], nic), 370000);
    ck_assert_int_eq(path_mbps(machine, &machine->gpus[4], nic), 128000);
    nic->mbps = 100000;
    ck_assert_int_eq(path_mbps(machine, &machine->gpus[0], nic), 100000);
    ck_assert_int_eq(path_mbps(machine, &machine->gpus[4], nic), 100000);
    machine_destroy(machine);
}
END_TEST

START_TEST(what_is_no_machine_is_refused)
{
    static const char *const texts[] = {"", "hello", "<topology",
                                        "<?xml version=\"1.0\"?>\n<topology version=\"2.0\"></topology>\n"};
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    setenv("HWLOC_PLUGINS_PATH", "", 1);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct machine_source source = {.xml = texts[i], .xml_bytes = strlen(texts[i])};
        ck_assert_int_eq(machine_load(&source, &machine, &err), HVD_ERR_INVALID);
        ck_assert_msg(strstr(err.text, "expected XML that hwloc 2 has exported") != NULL, "%s", err.text);
    }
    struct machine_source missing = {.xml_path = "/does/not/exist.xml"};
    ck_assert_int_eq(machine_load(&missing, &machine, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "/does/not/exist.xml") != NULL, "%s", err.text);
    struct machine_source folder = {.xml_path = "/"};
    ck_assert_int_eq(machine_load(&folder, &machine, &err), HVD_ERR_INVALID);
    ck_assert_ptr_null(machine);
}
END_TEST

START_TEST(this_node_is_loaded)
{
    struct machine_source source = {.live = true};
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    bool loopback = false;
    setenv("HWLOC_PLUGINS_PATH", "", 1);
    ck_assert_msg(machine_load(&source, &machine, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_ge(machine->core_count, 1);
    ck_assert(!bitmap_is_empty(&machine->allowed) && bitmap_is_included(&machine->allowed, &machine->cpus));
    ck_assert(!bitmap_is_empty(&machine->allowed_mems));
    for (int i = 0; i < machine->nic_count; i++)
        loopback = loopback || machine->nics[i].exclusion == NIC_LOOPBACK;
    ck_assert(access("/sys/class/net/lo", F_OK) != 0 || loopback);
    machine_destroy(machine);
}
END_TEST

/* Other CPUs than those that it may use are not for its tasks. */
START_TEST(the_mask_of_this_process_counts)
{
    struct machine_source source = {.live = true, .cores_only = true};
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    cpu_set_t all, one;
    int cpu = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    setenv("HWLOC_PLUGINS_PATH", "", 1);
    ck_assert_msg(machine_load(&source, &machine, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(bitmap_weight(&machine->allowed), 1);
    ck_assert(bitmap_is_set(&machine->allowed, cpu));
    machine_destroy(machine);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("machine");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, shapes_are_as_written, 0, MACHINE_COUNT);
    tcase_add_loop_test(tcase, kinds_with_fewer_domains_come_first, 0, sizeof(sorted) / sizeof(sorted[0]));
    tcase_add_loop_test(tcase, processors_are_joined_as_nccl_reckons, 0,
                        sizeof(processors) / sizeof(processors[0]));
    tcase_add_test(tcase, gpus_have_the_name_of_their_product);
    tcase_add_loop_test(tcase, cores_and_domains_agree, 0, MACHINE_COUNT);
    tcase_add_test(tcase, gpus_are_found_by_any_spelling);
    tcase_add_test(tcase, screens_are_no_gpus);
    tcase_add_test(tcase, paths_are_as_nccl_has_them);
    tcase_add_test(tcase, paths_carry_what_their_slowest_link_does);
    tcase_add_test(tcase, what_is_no_machine_is_refused);
    tcase_add_test(tcase, this_node_is_loaded);
    tcase_add_test(tcase, the_mask_of_this_process_counts);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("machine", fill);
}
