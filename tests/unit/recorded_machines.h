/* recorded_machines.h: loads the recorded test machines, and plans placements on them. */
#ifndef TESTS_UNIT_RECORDED_MACHINES_H
#define TESTS_UNIT_RECORDED_MACHINES_H

#include <stdio.h>
#include <stdlib.h>

#include "topo/plan/plan.h"
#include "unit.h"

static const char *const machine_names[] = {"gpu8", "epyc4", "power9", "cpu4", "offline", "vm1"};

#define MACHINE_COUNT ((int)(sizeof(machine_names) / sizeof(machine_names[0])))

/* Load an XML file, without hwloc's plug-ins. */
static inline struct machine *load_xml(const char *path)
{
    struct machine_source source = {.xml_path = path};
    struct machine *machine = NULL;
    struct hvd_error err = {""};
    setenv("HWLOC_PLUGINS_PATH", "", 1);
    ck_assert_msg(machine_load(&source, &machine, &err) == HVD_OK, "%s", err.text);
    return machine;
}

static inline struct machine *load_machine(const char *name)
{
    const char *source = getenv("HVD_SOURCE");
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/data/topo/%s.xml", source != NULL ? source : ".", name);
    return load_xml(path);
}

static inline struct bitmap cpu_list(const char *list)
{
    struct bitmap set;
    const char *why = "";
    ck_assert_msg(bitmap_parse(list, &set, &why) == 0, "%s: %s", list, why);
    return set;
}

static inline struct plan *make_plan(const struct machine *machine, const struct plan_request *request)
{
    struct plan *plan = NULL;
    struct hvd_error err = {""};
    ck_assert_msg(plan_create(machine, request, &plan, &err) == HVD_OK, "%d tasks, %s: %s",
                  request->task_count, bind_policy_names[request->bind.policy], err.text);
    return plan;
}

#endif
