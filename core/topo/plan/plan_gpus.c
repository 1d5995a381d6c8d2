/* plan_gpus.c: which GPUs each task gets: all of those that are granted, spread evenly. */
#include "topo/plan/plan_state.h"

#include "topo/path.h"

int gpus_grant(struct placing *placing, struct hvd_error *err)
{
    const struct request *request = placing->request;
    const struct machine *machine = placing->machine;
    int count = request->gpu_count < 0 ? machine->gpu_count : request->gpu_count;
    if (count > MACHINE_MAX_GPUS)
        return error_set(err, HVD_ERR_INVALID, "%d GPUs are granted on this node; up to %d are supported",
                         count, MACHINE_MAX_GPUS);
    for (int i = 0; i < count; i++) {
        int gpu = request->gpu_count < 0 ? i : request->gpus[i];
        if (gpu < 0 || gpu >= machine->gpu_count)
            return error_set(
                err, HVD_ERR_INVALID,
                "GPU %d is granted, but the topology has %d; it is of another machine or out of date", gpu,
                machine->gpu_count);
        for (int k = 0; k < i; k++)
            if (placing->gpus[k] == gpu)
                return error_set(err, HVD_ERR_INVALID, "GPU %s is granted twice", machine->gpus[gpu].pci.id);
        placing->gpus[placing->gpu_count++] = gpu;
    }
    if (request->bind.policy == BIND_GPU && placing->gpu_count == 0)
        return error_set(
            err, HVD_ERR_INVALID,
            "--hvd-bind=gpu: no GPU is granted on this node; ask for GPUs, or give auto or numa");
    return HVD_OK;
}

/* Tasks by their number: shares of GPUs that follow each other; where there are more tasks than GPUs, in
 * turn, as programs do that count by local rank. */
static void give_by_number(struct placing *placing)
{
    int parties = placing->party_count, gpus = placing->gpu_count;
    for (int i = 0; i < parties; i++) {
        struct party *party = &placing->parties[i];
        int first = parties > gpus ? i % gpus : (int)((long long)i * gpus / parties);
        int last = parties > gpus ? first + 1 : (int)((long long)(i + 1) * gpus / parties);
        for (int k = first; k < last; k++)
            party->gpus[party->gpu_count++] = placing->gpus[k];
    }
}

/* The next of [uses] GPUs to give to a task that is [far] from it, or -1. */
static int find_near(const struct placing *placing, const struct party *party, const int *uses, int most,
                     int far)
{
    for (int i = 0; i < placing->gpu_count; i++) {
        const struct machine_pci *pci = &placing->machine->gpus[placing->gpus[i]].pci;
        if (uses[i] < most && path_to_cpus(placing->machine, pci, &party->cpus) == far)
            return i;
    }
    return -1;
}

/* Tasks whose cores are settled: the GPUs nearest to those, none used more often than must be. */
static void give_by_cores(struct placing *placing)
{
    int uses[MACHINE_MAX_GPUS] = {0};
    int parties = placing->party_count, gpus = placing->gpu_count;
    int most = (parties + gpus - 1) / gpus; /* uses of a GPU */
    int each = (gpus + parties - 1) / parties;
    for (int round = 1; round <= each; round++)
        for (int far = 0; far <= 2; far++)
            for (int i = 0; i < parties; i++) {
                struct party *party = &placing->parties[i];
                int gpu = party->gpu_count < round ? find_near(placing, party, uses, most, far) : -1;
                if (gpu < 0)
                    continue;
                party->gpus[party->gpu_count++] = placing->gpus[gpu];
                uses[gpu]++;
            }
}

void gpus_give(struct placing *placing)
{
    bool cores = false;
    for (int i = 0; i < placing->party_count; i++) {
        if (placing->request->tasks != NULL && placing->request->tasks[i].gpus != NULL)
            return;
        cores = cores || placing->parties[i].settled;
    }
    if (placing->gpu_count == 0)
        return;
    if (cores)
        give_by_cores(placing);
    else
        give_by_number(placing);
}
