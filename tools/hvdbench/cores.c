/* cores.c: restrict this process and its children to two cores. */
#include "config.h"

#include "tools/hvdbench/cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The hardware threads of [cpu]'s core, such as "0,64"; "" if unknown. */
static void read_core(int cpu, char threads[64])
{
    char path[96];
    threads[0] = 0;
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(threads, 64, file) == NULL)
        threads[0] = 0;
    fclose(file);
}

int cores_take_two(int taken[2], struct hvd_error *err)
{
    char first[64] = "";
    char other[64] = "";
    bool apart = false;
    int count = 0;
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        return error_set_errno(err, "cannot tell which cores may be used");
    for (int cpu = 0; cpu < CPU_SETSIZE && !apart; cpu++) {
        if (!CPU_ISSET(cpu, &cpus))
            continue;
        read_core(cpu, count == 0 ? first : other);
        if (count > 0)
            apart = first[0] == 0 || strcmp(first, other) != 0;
        if (count < 2 || apart)
            taken[count == 0 ? 0 : 1] = cpu;
        count++;
    }
    if (count < 2)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "the bars are those of two cores, but this process may use only one");
    CPU_ZERO(&cpus);
    CPU_SET(taken[0], &cpus);
    CPU_SET(taken[1], &cpus);
    if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
        return error_set_errno(err, "cannot restrict this process to cores %d and %d", taken[0], taken[1]);
    return HVD_OK;
}
