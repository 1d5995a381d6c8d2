/* hardware.c: can hvd see the node's cores, and the network interfaces that would join nodes? */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hvdinfo/doctor/checks.h"
#include "topo/machine.h"
#include "topo/nic.h"

void check_hwloc(const struct patient *patient, struct finding *finding)
{
    struct hvd_error err = {""};
    struct machine *machine = NULL;
    (void)patient;
    setenv("HWLOC_PLUGINS_PATH", "", 1); /* hwloc is to open no vendor's library; see machine.h */
    int rc = machine_load(&(struct machine_source){.cores_only = true}, &machine, &err);
    if (rc == HVD_ERR_UNSUPPORTED)
        find(finding, CHECK_WARN, "build with hwloc (libhwloc-dev)", "not built in: ranks are not placed");
    else if (rc != HVD_OK)
        find(finding, CHECK_FAIL, "set HVD_BIND=none until hwloc can read this node", "%.190s", err.text);
    else
        find(finding, CHECK_OK, NULL, "%s; cores: %d, NUMA nodes: %d", BUILT_WITH_HWLOC, machine->core_count,
             machine->domain_count[DOMAIN_NUMA]);
    machine_destroy(machine);
}

/* The interfaces that a job would use, for one line. */
static void list_used(const struct nic *nics, int count, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count && used < text_bytes; i++)
        if (nics[i].exclusion == NIC_NOT_EXCLUDED)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", used > 0 ? ", " : "",
                                     nic_name(&nics[i]));
}

void check_interfaces(const struct patient *patient, struct finding *finding)
{
    static const char mend[] = "hvdinfo nics says of each why not; --hvd-nics names those to use";
    struct hvd_error err = {""};
    struct nic *nics = calloc(NIC_MAX, sizeof(*nics));
    char sys[300], used[160];
    int count = 0;
    snprintf(sys, sizeof(sys), "%s/sys", patient->root);
    int rc = nics == NULL ? error_set(&err, HVD_ERR_NO_MEMORY, "no memory for a list of network interfaces")
                          : nics_read_node(nics, NIC_MAX, sys, &count, &err);
    if (rc == HVD_OK)
        rc = nics_select(nics, count, patient->config->nics, &err);
    list_used(nics, count, used, sizeof(used));
    if (rc != HVD_OK)
        find(finding, CHECK_FAIL, mend, "%.190s", err.text);
    else if (used[0] == 0)
        find(finding, CHECK_WARN, mend, "none that could reach another node");
    else
        find(finding, CHECK_OK, NULL, "%s", used);
    free(nics);
}
