/* fuzz_erf.c: explicit resource files. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tests/unit/erf_format.h"
#include "topo/erf.h"

/* Four cores with one thread each, and a GPU. */
static const struct machine *small_machine(void)
{
    static struct machine machine;
    static struct machine_core cores[4];
    static struct machine_domain domains[DOMAIN_KINDS];
    machine = (struct machine){.core_count = 4, .cores = cores, .gpu_count = 1};
    for (int i = 0; i < 4; i++) {
        cores[i] = (struct machine_core){.os_index = i, .cpu_count = 1, .cpus = {i}};
        bitmap_set(&machine.cpus, i);
    }
    bitmap_set(&machine.mems, 0);
    machine.allowed = machine.cpus;
    machine.allowed_mems = machine.mems;
    machine.gpus[0].pci.cpus = machine.cpus;
    for (int kind = 0; kind < DOMAIN_KINDS; kind++) {
        domains[kind] = (struct machine_domain){.cpus = machine.cpus, .mems = machine.mems};
        machine.domains[kind] = &domains[kind];
        machine.domain_count[kind] = 1;
    }
    return &machine;
}

/* What it settles can be planned, unless it is refused. */
static void try_tasks(const struct erf *erf)
{
    const struct machine *machine = small_machine();
    struct erf_host host = {(char *)"n1", 1};
    struct erf_tasks tasks;
    struct plan *plan = NULL;
    struct hvd_error err;
    if (erf->rank_count > 64 || erf_tasks(erf, machine, &host, &tasks, NULL, &err) != HVD_OK)
        return;
    struct plan_request request = {.task_count = tasks.count, .gpu_count = -1, .tasks = tasks.tasks};
    if (tasks.count > 0 && plan_create(machine, &request, &plan, &err) == HVD_OK)
        for (int i = 0; i < plan->task_count; i++)
            assert(plan_task_valid(&plan->tasks[i]));
    plan_destroy(plan);
    erf_tasks_free(&tasks);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct erf *erf = NULL, *again = NULL;
    struct hvd_error err = {""};
    char *text = NULL, *twice = NULL;
    if (erf_parse("file", (const char *)bytes, length, &erf, &err) != HVD_OK) {
        assert(err.text[0] != 0);
        return 0;
    }
    if (erf->rank_count <= 1024) {
        text = erf_format(erf);
        assert(text != NULL);
        assert(erf_parse("again", text, strlen(text), &again, &err) == HVD_OK);
        twice = erf_format(again);
        assert(twice != NULL);
        assert(strcmp(text, twice) == 0);
    }
    try_tasks(erf);
    free(text);
    free(twice);
    erf_destroy(erf);
    erf_destroy(again);
    return 0;
}
