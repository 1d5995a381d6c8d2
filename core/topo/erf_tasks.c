/* erf_tasks.c: what an explicit resource file fixes for the tasks of one host. */
#include "topo/erf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tasks of a host while they are resolved. */
struct erf_resolver {
    const struct erf *erf;
    const struct machine *machine;
    struct erf_tasks *tasks;
    void (*warn)(const char *sentence);
    struct hvd_error *err;
};

/* Act on a conflict as the file says: an error, a warning, or nothing. */
static int answer(const struct erf_resolver *resolver, enum erf_action answer, const char *sentence)
{
    if (answer == ERF_ERROR)
        return error_set(resolver->err, HVD_ERR_INVALID, "%s", sentence);
    if (answer == ERF_WARN && resolver->warn != NULL)
        resolver->warn(sentence);
    return HVD_OK;
}

/* ---- Which ranks ---- */

/* Are the names equal? "n1" and "n1.site.org" are, because one of them is short. */
static bool same_host_name(const char *a, const char *b)
{
    size_t length = strcspn(a, ".");
    if (strchr(a, '.') != NULL && strchr(b, '.') != NULL)
        return strcmp(a, b) == 0;
    return length == strcspn(b, ".") && memcmp(a, b, length) == 0;
}

static bool rank_is_on(const struct erf *erf, const struct erf_rank *rank, const struct erf_host *host)
{
    if (rank->host == ERF_ALL)
        return host->index == 1;
    const struct erf_host *wanted = &erf->hosts[rank->host];
    return wanted->name == NULL ? wanted->index == host->index
                                : host->name != NULL && same_host_name(wanted->name, host->name);
}

/* ---- CPUs and GPUs ---- */

/* The CPU at a position in the order of cores, or -1. */
static int cpu_at(const struct machine *machine, int position)
{
    for (int i = 0; i < machine->core_count; i++) {
        if (position < machine->cores[i].cpu_count)
            return machine->cores[i].cpus[position];
        position -= machine->cores[i].cpu_count;
    }
    return -1;
}

static int resolve_cpus(const struct erf_resolver *resolver, const struct erf_rank *rank, struct bitmap *cpus)
{
    const struct erf *erf = resolver->erf;
    char sentence[200];
    *cpus = resolver->machine->allowed;
    if (rank->cpus == ERF_ALL)
        return HVD_OK;
    *cpus = (struct bitmap){{0}};
    for (int i = bitmap_find_next(&erf->sets[rank->cpus], 0); i >= 0;
         i = bitmap_find_next(&erf->sets[rank->cpus], i + 1)) {
        int cpu = erf->physical ? i : cpu_at(resolver->machine, i);
        if (cpu >= 0 && bitmap_is_set(&resolver->machine->cpus, cpu)) {
            bitmap_set(cpus, cpu);
            continue;
        }
        snprintf(sentence, sizeof(sentence), "explicit resource file, line %d: this host has no CPU %d (%s)",
                 rank->line, i, erf->physical ? "physical" : "logical");
        int rc = answer(resolver, erf->skip_missing_cpu, sentence);
        if (rc != HVD_OK)
            return rc;
    }
    if (bitmap_is_empty(cpus))
        return error_set(resolver->err, HVD_ERR_INVALID,
                         "explicit resource file, line %d: none of its CPUs is on this host", rank->line);
    return HVD_OK;
}

static int resolve_gpus(const struct erf_resolver *resolver, const struct erf_rank *rank, int *gpus,
                        int *countp)
{
    const struct erf *erf = resolver->erf;
    char sentence[200];
    *countp = 0;
    for (int i = 0; rank->gpus == ERF_ALL && i < resolver->machine->gpu_count; i++)
        gpus[(*countp)++] = i;
    if (rank->gpus < 0)
        return HVD_OK;
    for (int i = bitmap_find_next(&erf->sets[rank->gpus], 0); i >= 0;
         i = bitmap_find_next(&erf->sets[rank->gpus], i + 1)) {
        if (i < resolver->machine->gpu_count) {
            gpus[(*countp)++] = i;
            continue;
        }
        snprintf(sentence, sizeof(sentence),
                 "explicit resource file, line %d: this host has no GPU %d, only %d", rank->line, i,
                 resolver->machine->gpu_count);
        int rc = answer(resolver, erf->skip_missing_gpu, sentence);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static int resolve_rank(const struct erf_resolver *resolver, int rank)
{
    struct erf_tasks *tasks = resolver->tasks;
    const struct erf_rank *from = &resolver->erf->ranks[rank];
    int at = tasks->count++;
    int *gpus = tasks->gpus + (size_t)at * MACHINE_MAX_GPUS;
    struct request_task *task = &tasks->tasks[at];
    int rc = resolve_cpus(resolver, from, &tasks->cpus[at]);
    if (rc == HVD_OK)
        rc = resolve_gpus(resolver, from, gpus, &task->gpu_count);
    if (rc != HVD_OK)
        return rc;
    snprintf(tasks->whys[at], sizeof(tasks->whys[at]), "explicit resource file, line %d", from->line);
    tasks->ranks[at] = rank;
    task->cpus = &tasks->cpus[at];
    task->gpus = gpus;
    task->why = tasks->whys[at];
    return HVD_OK;
}

/* ---- Conflicts between lines ---- */

static int check_overlap(const struct erf_resolver *resolver)
{
    const struct erf_tasks *tasks = resolver->tasks;
    const struct erf_rank *ranks = resolver->erf->ranks;
    char sentence[200];
    struct bitmap before = {{0}};
    for (int i = 0; i < tasks->count; i++) {
        bool overlap = bitmap_intersects(&before, &tasks->cpus[i]);
        bitmap_or(&before, &tasks->cpus[i]);
        for (int k = 0; overlap && k < i; k++) {
            int line = ranks[tasks->ranks[k]].line;
            if (line == ranks[tasks->ranks[i]].line || !bitmap_intersects(&tasks->cpus[k], &tasks->cpus[i]))
                continue;
            snprintf(sentence, sizeof(sentence),
                     "explicit resource file: lines %d and %d have CPUs in common; say overlapping_rs: allow "
                     "if that is meant",
                     line, ranks[tasks->ranks[i]].line);
            return answer(resolver, resolver->erf->overlapping_rs, sentence);
        }
    }
    return HVD_OK;
}

static int check_oversubscribed(const struct erf_resolver *resolver)
{
    const struct erf_tasks *tasks = resolver->tasks;
    const struct erf_rank *ranks = resolver->erf->ranks;
    char sentence[200];
    for (int i = 0; i < tasks->count; i++) {
        const struct erf_rank *rank = &ranks[tasks->ranks[i]];
        int sharers = 0;
        for (int k = i; k < tasks->count && ranks[tasks->ranks[k]].line == rank->line; k++)
            sharers += ranks[tasks->ranks[k]].cpus == rank->cpus;
        if (sharers <= bitmap_weight(&tasks->cpus[i]))
            continue;
        snprintf(sentence, sizeof(sentence),
                 "explicit resource file, line %d: %d ranks share %d CPUs; say oversubscribe_cpu: allow if "
                 "that is meant",
                 rank->line, sharers, bitmap_weight(&tasks->cpus[i]));
        return answer(resolver, resolver->erf->oversubscribe_cpu, sentence);
    }
    return HVD_OK;
}

/* ---- The host ---- */

static bool allocate_tasks(struct erf_tasks *tasks, int room)
{
    size_t count = room > 0 ? (size_t)room : 1;
    tasks->ranks = calloc(count, sizeof(*tasks->ranks));
    tasks->tasks = calloc(count, sizeof(*tasks->tasks));
    tasks->cpus = calloc(count, sizeof(*tasks->cpus));
    tasks->gpus = calloc(count, sizeof(*tasks->gpus) * MACHINE_MAX_GPUS);
    tasks->whys = calloc(count, sizeof(*tasks->whys));
    return tasks->ranks != NULL && tasks->tasks != NULL && tasks->cpus != NULL && tasks->gpus != NULL &&
           tasks->whys != NULL;
}

int erf_tasks(const struct erf *erf, const struct machine *machine, const struct erf_host *host,
              struct erf_tasks *tasks, void (*warn)(const char *sentence), struct hvd_error *err)
{
    struct erf_tasks made = {.count = 0};
    struct erf_resolver resolver = {erf, machine, &made, warn, err};
    int room = 0;
    int rc = HVD_OK;
    for (int i = 0; i < erf->rank_count; i++)
        room += rank_is_on(erf, &erf->ranks[i], host);
    if (room > PLAN_MAX_TASKS)
        return error_set(err, HVD_ERR_INVALID,
                         "explicit resource file: %d ranks on one host; up to %d are supported", room,
                         PLAN_MAX_TASKS);
    if (!allocate_tasks(&made, room))
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d ranks of an explicit resource file", room);
    for (int i = 0; rc == HVD_OK && i < erf->rank_count; i++)
        if (rank_is_on(erf, &erf->ranks[i], host))
            rc = resolve_rank(&resolver, i);
    if (rc == HVD_OK)
        rc = check_overlap(&resolver);
    if (rc == HVD_OK)
        rc = check_oversubscribed(&resolver);
    if (rc == HVD_OK && erf->memory_amounts && warn != NULL)
        warn("explicit resource file: amounts of memory (mem:) have no effect; tasks have the memory near "
             "their CPUs");
    if (rc != HVD_OK) {
        erf_tasks_free(&made);
        return rc;
    }
    *tasks = made;
    return HVD_OK;
}

void erf_tasks_free(struct erf_tasks *tasks)
{
    free(tasks->ranks);
    free(tasks->tasks);
    free(tasks->cpus);
    free(tasks->gpus);
    free(tasks->whys);
    *tasks = (struct erf_tasks){.count = 0};
}
