/* plan_gpus.c: assign GPUs to tasks: all that are granted, spread evenly. */
#include "topo/plan/plan_state.h"

#include "topo/path.h"

int gpus_collect_granted(struct plan_builder *builder, struct hvd_error *err)
{
    const struct plan_request *request = builder->request;
    const struct machine *machine = builder->machine;
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
            if (builder->gpus[k] == gpu)
                return error_set(err, HVD_ERR_INVALID, "GPU %s is granted twice", machine->gpus[gpu].pci.id);
        builder->gpus[builder->gpu_count++] = gpu;
    }
    if (request->bind.policy == BIND_GPU && builder->gpu_count == 0)
        return error_set(
            err, HVD_ERR_INVALID,
            "--hvd-bind=gpu: no GPU is granted on this node; ask for GPUs, or give auto or numa");
    return HVD_OK;
}

/* By task number: each task gets a run of consecutive GPUs. If there are more tasks than GPUs, tasks take the
 * GPUs in turn, which matches programs that select a GPU by local rank. */
static void assign_by_number(struct plan_builder *builder)
{
    int consumers = builder->consumer_count, gpus = builder->gpu_count;
    for (int i = 0; i < consumers; i++) {
        struct consumer *consumer = &builder->consumers[i];
        int first = consumers > gpus ? i % gpus : (int)((long long)i * gpus / consumers);
        int last = consumers > gpus ? first + 1 : (int)((long long)(i + 1) * gpus / consumers);
        for (int k = first; k < last; k++)
            consumer->gpus[consumer->gpu_count++] = builder->gpus[k];
    }
}

/* The next GPU that is used less than [most] times and is at distance [far] from the consumer's CPUs, or
 * -1. */
static int find_near(const struct plan_builder *builder, const struct consumer *consumer, const int *uses,
                     int most, int far)
{
    for (int i = 0; i < builder->gpu_count; i++) {
        const struct pci_device *pci = &builder->machine->gpus[builder->gpus[i]].pci;
        if (uses[i] < most && path_to_cpus(builder->machine, pci, &consumer->cpus) == far)
            return i;
    }
    return -1;
}

/* Tasks with preset cores get the GPUs nearest to these. No GPU is used more often than it must be. */
static void assign_by_cores(struct plan_builder *builder)
{
    int uses[MACHINE_MAX_GPUS] = {0};
    int consumers = builder->consumer_count, gpus = builder->gpu_count;
    int most = (consumers + gpus - 1) / gpus; /* uses of a GPU */
    int each = (gpus + consumers - 1) / consumers;
    for (int round = 1; round <= each; round++)
        for (int far = 0; far <= 2; far++)
            for (int i = 0; i < consumers; i++) {
                struct consumer *consumer = &builder->consumers[i];
                int gpu = consumer->gpu_count < round ? find_near(builder, consumer, uses, most, far) : -1;
                if (gpu < 0)
                    continue;
                consumer->gpus[consumer->gpu_count++] = builder->gpus[gpu];
                uses[gpu]++;
            }
}

void gpus_assign(struct plan_builder *builder)
{
    bool cores = false;
    for (int i = 0; i < builder->consumer_count; i++) {
        if (builder->request->tasks != NULL && builder->request->tasks[i].gpus != NULL)
            return;
        cores = cores || builder->consumers[i].preset;
    }
    if (builder->gpu_count == 0)
        return;
    if (cores)
        assign_by_cores(builder);
    else
        assign_by_number(builder);
}
