/* machine_load.c: load a topology by hwloc, live or from XML, and translate its cores and the domains they
 * share. */
#include "config.h"
#include "topo/machine_hwloc.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "topo/file.h"
#include "topo/forked_call.h"

#define XML_LOAD_US INT64_C(10000000) /* how long XML may take */

/* ---- Load ---- */

/* Devices are found on PCI, without asking their drivers. Caches below L3 are of no use here and cost
 * time. */
static int set_filters(hwloc_topology_t topology, bool cores_only)
{
    static const struct {
        hwloc_obj_type_t type;
        enum hwloc_type_filter_e filter;
    } filters[] = {{HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL},
                   {HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT},
                   {HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT},
                   {HWLOC_OBJ_L1CACHE, HWLOC_TYPE_FILTER_KEEP_NONE},
                   {HWLOC_OBJ_L2CACHE, HWLOC_TYPE_FILTER_KEEP_NONE},
                   {HWLOC_OBJ_L1ICACHE, HWLOC_TYPE_FILTER_KEEP_NONE},
                   {HWLOC_OBJ_L2ICACHE, HWLOC_TYPE_FILTER_KEEP_NONE},
                   {HWLOC_OBJ_L3ICACHE, HWLOC_TYPE_FILTER_KEEP_NONE}};
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (!(cores_only &&
              hwloc_obj_type_is_io(filters[i].type)) && /* devices are left out unless asked for */
            hwloc_topology_set_type_filter(topology, filters[i].type, filters[i].filter) < 0)
            return -1;
    return hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
}

static int copy_xml(const char *xml, size_t bytes, char **textp, struct hvd_error *err)
{
    if (bytes > MACHINE_XML_BYTES)
        return error_set(err, HVD_ERR_INVALID, "the XML: a topology of more than %d MiB",
                         MACHINE_XML_BYTES >> 20);
    *textp = strndup(xml, bytes);
    return *textp != NULL ? HVD_OK
                          : error_set(err, HVD_ERR_NO_MEMORY, "no memory for %zu bytes of XML", bytes);
}

/* The source's XML, which the caller frees; NULL: it is this node. */
static int read_xml(const struct machine_source *source, char **xmlp, struct hvd_error *err)
{
    size_t bytes = 0;
    *xmlp = NULL;
    if (source->xml_path != NULL)
        return file_read(source->xml_path, "a topology", MACHINE_XML_BYTES, xmlp, &bytes, err);
    return source->xml != NULL ? copy_xml(source->xml, source->xml_bytes, xmlp, err) : HVD_OK;
}

static const char *xml_name(const struct machine_source *source)
{
    return source->xml_path != NULL ? source->xml_path : "the XML";
}

static int load_topology(const struct machine_source *source, const char *xml, hwloc_topology_t topology,
                         struct hvd_error *err)
{
    /* the length counts the 0 at the end */
    if (set_filters(topology, source->cores_only) == 0 &&
        (xml == NULL || hwloc_topology_set_xmlbuffer(topology, xml, (int)strlen(xml) + 1) == 0) &&
        hwloc_topology_load(topology) == 0)
        return HVD_OK;
    if (xml == NULL)
        return error_set(err, HVD_ERR_SYSTEM, "hwloc cannot load the topology of this node");
    return error_set(err, HVD_ERR_INVALID,
                     "%.200s: not a topology; expected XML that hwloc 2 has exported, as by lstopo FILE.xml",
                     xml_name(source));
}

/* ---- Domains ---- */

/* Is the memory node for programs on the host? Memory of GPUs and nodes without memory are not. */
static bool is_host_memory(hwloc_topology_t topology, hwloc_obj_t node)
{
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    if (node->subtype != NULL && strcmp(node->subtype, "GPUMemory") == 0)
        return false;
    return node->attr->numanode.local_memory > 0 || root->total_memory == 0;
}

static hwloc_obj_t next_object(hwloc_topology_t topology, enum domain_kind kind, hwloc_obj_t last)
{
    static const hwloc_obj_type_t types[] = {[DOMAIN_PACKAGE] = HWLOC_OBJ_PACKAGE,
                                             [DOMAIN_NUMA] = HWLOC_OBJ_NUMANODE,
                                             [DOMAIN_L3] = HWLOC_OBJ_L3CACHE};
    hwloc_obj_t next = hwloc_get_next_obj_by_type(topology, types[kind], last);
    while (next != NULL && kind == DOMAIN_NUMA &&
           (hwloc_bitmap_iszero(next->cpuset) || !is_host_memory(topology, next)))
        next = hwloc_get_next_obj_by_type(topology, types[kind], next);
    return next;
}

/* The smallest object of [kind] around a core, the first of equally small ones, or NULL. */
static hwloc_obj_t object_around(hwloc_topology_t topology, enum domain_kind kind, hwloc_obj_t core)
{
    hwloc_obj_t best = NULL;
    for (hwloc_obj_t i = next_object(topology, kind, NULL); i != NULL; i = next_object(topology, kind, i))
        if (hwloc_bitmap_isincluded(core->cpuset, i->cpuset) &&
            (best == NULL || hwloc_bitmap_weight(i->cpuset) < hwloc_bitmap_weight(best->cpuset)))
            best = i;
    return best;
}

/* Assign every core its domain of [kind]. Cores for which hwloc knows none share one. */
static int add_domains(struct machine *machine, hwloc_topology_t topology, enum domain_kind kind,
                       hwloc_obj_t *cores)
{
    hwloc_obj_t *objects = calloc((size_t)machine->core_count, sizeof(*objects));
    struct machine_domain *domains = calloc((size_t)machine->core_count, sizeof(*domains));
    int count = 0;
    if (objects == NULL || domains == NULL) {
        free(objects);
        free(domains);
        return -1;
    }
    for (int i = 0; i < machine->core_count; i++) {
        struct machine_core *core = &machine->cores[i];
        hwloc_obj_t object = object_around(topology, kind, cores[i]);
        int at = 0;
        while (at < count && objects[at] != object)
            at++;
        if (at == count) {
            objects[count] = object;
            domains[count++].os_index =
                object == NULL || kind == DOMAIN_L3 || object->os_index == HWLOC_UNKNOWN_INDEX
                    ? at
                    : (int)object->os_index;
            if (object != NULL)
                domains[at].bytes = kind == DOMAIN_L3     ? (int64_t)object->attr->cache.size
                                    : kind == DOMAIN_NUMA ? (int64_t)object->attr->numanode.local_memory
                                                          : 0;
        }
        core->domain[kind] = at;
        for (int k = 0; k < core->cpu_count; k++)
            bitmap_set(&domains[at].cpus, core->cpus[k]);
    }
    free(objects);
    machine->domains[kind] = domains;
    machine->domain_count[kind] = count;
    return 0;
}

/* A NUMA domain has the memory nodes around it; the other domains have those of their cores. A NUMA domain
 * without a known memory node has them all. */
static void add_memory(struct machine *machine, hwloc_topology_t topology)
{
    for (int i = 0; i < machine->domain_count[DOMAIN_NUMA]; i++) {
        struct machine_domain *domain = &machine->domains[DOMAIN_NUMA][i];
        for (hwloc_obj_t node = next_object(topology, DOMAIN_NUMA, NULL); node != NULL;
             node = next_object(topology, DOMAIN_NUMA, node)) {
            struct bitmap cpus;
            if (node->os_index < BITMAP_BITS && bitmap_from_hwloc(node->cpuset, &cpus) == 0 &&
                bitmap_is_included(&domain->cpus, &cpus))
                bitmap_set(&domain->mems, (int)node->os_index);
        }
        if (bitmap_is_empty(&domain->mems))
            domain->mems = machine->mems;
    }
    for (int i = 0; i < machine->core_count; i++) {
        const int *domain = machine->cores[i].domain;
        const struct bitmap *mems = &machine->domains[DOMAIN_NUMA][domain[DOMAIN_NUMA]].mems;
        bitmap_or(&machine->domains[DOMAIN_PACKAGE][domain[DOMAIN_PACKAGE]].mems, mems);
        bitmap_or(&machine->domains[DOMAIN_L3][domain[DOMAIN_L3]].mems, mems);
    }
}

/* ---- Cores ---- */

/* The cores that have an online thread. If the topology has no cores, each hardware thread is one. */
static int find_cores(hwloc_topology_t topology, hwloc_obj_t **coresp)
{
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int room = hwloc_get_nbobjs_by_type(topology, type);
    int count = 0;
    hwloc_obj_t *cores = calloc(room > 0 ? (size_t)room : 1, sizeof(*cores));
    if (cores == NULL)
        return -1;
    for (hwloc_obj_t i = hwloc_get_next_obj_by_type(topology, type, NULL); i != NULL && count < room;
         i = hwloc_get_next_obj_by_type(topology, type, i))
        if (!hwloc_bitmap_iszero(i->cpuset))
            cores[count++] = i;
    *coresp = cores;
    return count;
}

static int add_core(struct machine *machine, hwloc_topology_t topology, hwloc_obj_t object,
                    struct hvd_error *err)
{
    struct machine_core *core = &machine->cores[machine->core_count++];
    core->os_index = (int)object->os_index;
    for (hwloc_obj_t pu =
             hwloc_get_next_obj_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_PU, NULL);
         pu != NULL;
         pu = hwloc_get_next_obj_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_PU, pu)) {
        if (pu->os_index >= BITMAP_BITS)
            return error_set(err, HVD_ERR_INVALID, "the topology has CPU %u; numbers up to %d are supported",
                             pu->os_index, BITMAP_BITS - 1);
        if (core->cpu_count == MACHINE_CORE_CPUS)
            return error_set(
                err, HVD_ERR_INVALID,
                "the topology has a core of more than %d hardware threads; that is not supported",
                MACHINE_CORE_CPUS);
        core->cpus[core->cpu_count++] = (int)pu->os_index;
        bitmap_set(&machine->cpus, (int)pu->os_index);
    }
    return HVD_OK;
}

static int add_cores(struct machine *machine, hwloc_topology_t topology, struct hvd_error *err)
{
    hwloc_obj_t *cores = NULL;
    int count = find_cores(topology, &cores);
    int rc = HVD_OK;
    if (count == 0)
        rc = error_set(err, HVD_ERR_INVALID, "the topology has no core that is on line");
    machine->cores = count < 1 ? NULL : calloc((size_t)count, sizeof(*machine->cores));
    if (rc == HVD_OK && machine->cores == NULL)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a topology of %d cores", count);
    for (int i = 0; rc == HVD_OK && i < count; i++)
        rc = add_core(machine, topology, cores[i], err);
    for (int kind = 0; rc == HVD_OK && kind < DOMAIN_KINDS; kind++)
        if (add_domains(machine, topology, (enum domain_kind)kind, cores) < 0)
            rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for a topology of %d cores", count);
    if (rc == HVD_OK)
        add_memory(machine, topology);
    free(cores);
    return rc;
}

/* Without L3 caches, the L3 domains are the NUMA domains. */
static int default_l3_to_numa(struct machine *machine, hwloc_topology_t topology)
{
    size_t count = (size_t)machine->domain_count[DOMAIN_NUMA];
    machine->has_l3 = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_L3CACHE) > 0;
    if (machine->has_l3)
        return 0;
    free(machine->domains[DOMAIN_L3]);
    machine->domain_count[DOMAIN_L3] = 0;
    machine->domains[DOMAIN_L3] = malloc(count * sizeof(struct machine_domain));
    if (machine->domains[DOMAIN_L3] == NULL)
        return -1;
    memcpy(machine->domains[DOMAIN_L3], machine->domains[DOMAIN_NUMA], count * sizeof(struct machine_domain));
    machine->domain_count[DOMAIN_L3] = (int)count;
    for (int i = 0; i < machine->core_count; i++)
        machine->cores[i].domain[DOMAIN_L3] = machine->cores[i].domain[DOMAIN_NUMA];
    return 0;
}

/* ---- The machine ---- */

static void add_memory_nodes(struct machine *machine, hwloc_topology_t topology)
{
    hwloc_obj_t node = NULL;
    for (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, NULL); node != NULL;
         node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))
        if (node->os_index < BITMAP_BITS && is_host_memory(topology, node))
            bitmap_set(&machine->mems, (int)node->os_index);
}

/* The CPUs in this process's affinity mask; all CPUs if the kernel has more than we support. */
static void own_affinity(struct bitmap *mask)
{
    cpu_set_t *set = CPU_ALLOC(BITMAP_BITS);
    memset(mask, 0xff, sizeof(*mask));
    if (set == NULL)
        return;
    if (sched_getaffinity(0, CPU_ALLOC_SIZE(BITMAP_BITS), set) == 0)
        for (int cpu = 0; cpu < BITMAP_BITS; cpu++)
            if (!CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(BITMAP_BITS), set))
                bitmap_clear(mask, cpu);
    CPU_FREE(set);
}

/* What the cgroup allows, and on this node also the process's own affinity mask. */
static int add_allowed(struct machine *machine, hwloc_topology_t topology, bool here)
{
    struct bitmap mask;
    if (bitmap_from_hwloc(hwloc_topology_get_allowed_cpuset(topology), &machine->allowed) < 0 ||
        bitmap_from_hwloc(hwloc_topology_get_allowed_nodeset(topology), &machine->allowed_mems) < 0)
        return -1;
    bitmap_and(&machine->allowed, &machine->cpus);
    bitmap_and(&machine->allowed_mems, &machine->mems);
    if (here) {
        own_affinity(&mask);
        bitmap_and(&machine->allowed, &mask);
    }
    return 0;
}

/* The bandwidth between NUMA nodes in Mb/s, from NCCL's table of processors. */
static int64_t estimate_numa_mbps(hwloc_topology_t topology)
{
    static const struct {
        int from_model;
        int64_t mbps;
    } intel[] = {{0xcf, 320000}, {0x8f, 176000}, {0x55, 80000}, {0, 48000}};
    hwloc_obj_t package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, NULL);
    const char *architecture = object_info(hwloc_get_root_obj(topology), "Architecture");
    const char *vendor = object_info(package, "CPUVendor");
    long model = strtol(object_info(package, "CPUModelNumber"), NULL, 10);
    if (strncmp(architecture, "ppc", 3) == 0)
        return 256000;
    if (strcmp(architecture, "aarch64") == 0)
        return 48000;
    if (strcmp(vendor, "AuthenticAMD") == 0)
        return 128000;
    if (strcmp(vendor, "GenuineIntel") != 0)
        return 0;
    int i = 0;
    while (model < intel[i].from_model)
        i++;
    return intel[i].mbps;
}

static int translate(struct machine *machine, hwloc_topology_t topology, const struct machine_source *source,
                     struct hvd_error *err)
{
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    bool here = source->xml_path == NULL && source->xml == NULL;
    const char *name = object_info(root, "HostName");
    copy_printable(machine->name, sizeof(machine->name),
                   name[0] != 0 ? name : object_info(root, "DMIProductName"));
    add_memory_nodes(machine, topology);
    int rc = add_cores(machine, topology, err);
    if (rc != HVD_OK)
        return rc;
    if (default_l3_to_numa(machine, topology) < 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the topology");
    if (add_allowed(machine, topology, here) < 0)
        return error_set(err, HVD_ERR_INVALID, "the topology has no bound, or a number over %d",
                         BITMAP_BITS - 1);
    if (machine->domain_count[DOMAIN_NUMA] > 1)
        machine->numa_mbps = estimate_numa_mbps(topology);
    return machine_add_devices(machine, topology, err);
}

static int load_machine(const struct machine_source *source, const char *xml, struct machine **machinep,
                        struct hvd_error *err)
{
    hwloc_topology_t topology = NULL;
    struct machine *machine = calloc(1, sizeof(*machine));
    int rc = HVD_OK;
    if (machine == NULL || hwloc_topology_init(&topology) < 0) {
        free(machine);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a topology");
    }
    rc = load_topology(source, xml, topology, err);
    if (rc == HVD_OK)
        rc = translate(machine, topology, source, err);
    if (rc == HVD_OK)
        machine_finish(machine, source);
    hwloc_topology_destroy(topology);
    if (rc != HVD_OK) {
        machine_destroy(machine);
        return rc;
    }
    *machinep = machine;
    return HVD_OK;
}

/* ---- Damaged XML, with which hwloc may crash ---- */

struct xml_load {
    const struct machine_source *source;
    const char *xml;
};

static void try_xml(void *arg)
{
    const struct xml_load *tried = arg;
    struct machine *machine = NULL;
    load_machine(tried->source, tried->xml, &machine, NULL);
}

static int check_xml(const struct machine_source *source, const char *xml, struct hvd_error *err)
{
    struct xml_load tried = {source, xml};
    int survives = forked_call_run(try_xml, &tried, clock_us() + XML_LOAD_US);
    if (survives < 0)
        return error_set_errno(err, "no process to load a topology in");
    return survives
               ? HVD_OK
               : error_set(err, HVD_ERR_INVALID,
                           "%.200s: a damaged topology, with which hwloc crashes or comes to no end; export "
                           "it anew, as by lstopo FILE.xml",
                           xml_name(source));
}

int machine_load(const struct machine_source *source, struct machine **machinep, struct hvd_error *err)
{
    char *xml = NULL;
    int rc = read_xml(source, &xml, err);
    if (rc == HVD_OK && xml != NULL)
        rc = check_xml(source, xml, err);
    if (rc == HVD_OK)
        rc = load_machine(source, xml, machinep, err);
    free(xml);
    return rc;
}
