/* slurm_hosts.c: the hosts of a Slurm job, with a slot for each task that has room there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/node_list.h"
#include "options/parse.h"
#include "tools/hvdrun/launcher/hosts.h"

/* The counts of Slurm's variables, "2(x3),4", one after the other. */
struct counts {
    const char *at;
    long count, times; /* what is left of the current one */
};

static long next_count(struct counts *counts)
{
    char *end = NULL;
    if (counts->times == 0) {
        counts->count = strtol(counts->at, &end, 10);
        counts->times = 1;
        if (strncmp(end, "(x", 2) == 0) {
            counts->times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        counts->at = end + (*end == ',');
    }
    counts->times--;
    return counts->count;
}

static long number_of(char *const *environment, const char *name)
{
    return (long)parse_count_or(environment_value(environment, name), 0);
}

/* How many slots the next host has. */
static int next_slots(struct counts *cpus, long cpus_per_slot, long slots_per_host)
{
    long slots = next_count(cpus) / cpus_per_slot;
    if (slots_per_host > 0)
        slots = slots_per_host;
    return slots < 1 ? 1 : slots > HOST_SLOTS_MAX ? HOST_SLOTS_MAX : (int)slots;
}

int host_list_of_slurm(struct host_list *list, char *const *environment, int slots, struct hvd_error *err)
{
    struct host_list read = {NULL, 0, 0};
    const char *text = environment_value(environment, "SLURM_JOB_NODELIST");
    const char *cpus = environment_value(environment, "SLURM_JOB_CPUS_PER_NODE");
    long cpus_per_slot = number_of(environment, "SLURM_CPUS_PER_TASK");
    long slots_per_host = slots > 0 ? slots : number_of(environment, "SLURM_NTASKS_PER_NODE");
    struct counts counts = {.at = cpus != NULL ? cpus : "1(x65536)"};
    char name[HOST_NAME_BYTES];
    int status = HVD_OK;
    if (text == NULL || text[0] == 0)
        return error_set(err, HVD_ERR_INVALID,
                         "SLURM_JOB_NODELIST names no node; start hvdrun in a job of Slurm");
    long count = node_list_count(text), done = 0;
    for (; status == HVD_OK && done < count && node_list_at(text, done, name, sizeof(name)); done++)
        status = host_list_add(
            &read, name, next_slots(&counts, cpus_per_slot > 0 ? cpus_per_slot : 1, slots_per_host), err);
    if (status == HVD_OK && (count == 0 || done < count))
        status =
            error_set(err, HVD_ERR_INVALID,
                      "SLURM_JOB_NODELIST: '%.80s' is not understood; name the hosts by --hostfile", text);
    if (status == HVD_OK)
        *list = read;
    else
        host_list_free(&read);
    return status;
}
