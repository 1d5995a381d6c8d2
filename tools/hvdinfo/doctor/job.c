/* job.c: what the ranks of a job are like together: the same programs, GPUs of their own, clocks that agree.
 */
#include "tools/hvdinfo/doctor/job.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/parse.h"
#include "tools/common/outer_tasks.h"

#define CLOCKS_AGREE_US INT64_C(100000)

int64_t job_claimed(char *const *environment)
{
    int64_t count = outer_tasks_read(environment).count;
    return count > 0 ? count : parse_count_or(environment_value(environment, "WORLD_SIZE"), 0);
}

/* The first rank whose [field] is not that of rank 0, or 0. */
static int first_other(const struct facts *facts, int ranks, size_t offset, size_t bytes)
{
    for (int i = 1; i < ranks; i++)
        if (memcmp((const char *)&facts[i] + offset, (const char *)&facts[0] + offset, bytes) != 0)
            return i;
    return 0;
}

#define FIRST_OTHER(field) first_other(facts, ranks, offsetof(struct facts, field), sizeof(facts->field))

static void check_versions(const struct facts *facts, int ranks, struct finding *finding)
{
    int hvd = FIRST_OTHER(version), pmix = FIRST_OTHER(pmix), plugin = FIRST_OTHER(plugin);
    int nccl = FIRST_OTHER(nccl);
    if (hvd != 0)
        find(finding, CHECK_FAIL, "install the same hvd on all nodes", "hvd %s on %s, %s on %s",
             facts[0].version, facts[0].host, facts[hvd].version, facts[hvd].host);
    else if (plugin != 0 && (facts[plugin].plugin == 0 || facts[0].plugin == 0))
        find(finding, CHECK_FAIL, "install it there, and name it in plugstack.conf",
             "%s has the plug-in, %s has not", facts[facts[0].plugin == 0 ? plugin : 0].host,
             facts[facts[0].plugin == 0 ? 0 : plugin].host);
    else if (plugin != 0)
        find(finding, CHECK_FAIL, "install the same hvd on all nodes",
             "the plug-ins of %s and %s are not the same", facts[0].host, facts[plugin].host);
    else if (pmix != 0)
        find(finding, CHECK_WARN, "install the same PMIx on all nodes", "PMIx %s on %s, %s on %s",
             facts[0].pmix, facts[0].host, facts[pmix].pmix, facts[pmix].host);
    else if (nccl != 0)
        find(finding, CHECK_WARN, "install the same NCCL on all nodes: otherwise it connects no GPUs",
             "NCCL %s on %s, %s on %s", facts[0].nccl, facts[0].host, facts[nccl].nccl, facts[nccl].host);
    else
        find(finding, CHECK_OK, NULL, "hvd %s%s, the same on all nodes", facts[0].version,
             facts[0].plugin != 0 ? " and the plug-in" : "");
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void check_size(const struct facts *facts, int ranks, struct finding *finding)
{
    for (int i = 0; i < ranks; i++) {
        if (facts[i].claimed != 0 && facts[i].claimed != ranks) {
            find(finding, CHECK_FAIL, "start all by one srun --hvd or one hvdrun",
                 "the job has %d ranks, but rank %d was told of %" PRId64 " tasks", ranks, i,
                 facts[i].claimed);
            return;
        }
    }
    find(finding, CHECK_OK, NULL, "%d rank%s%s", ranks, plural(ranks),
         facts[0].claimed == ranks ? ", as the launcher says" : "");
}

/* A GPU of a rank. */
struct owned_gpu {
    const char *host;
    char id[32];
    int rank;
};

static int compare_gpus(const void *left, const void *right)
{
    const struct owned_gpu *a = left, *b = right;
    int order = strcmp(a->host, b->host);
    order = order != 0 ? order : strcmp(a->id, b->id);
    return order != 0 ? order : a->rank - b->rank;
}

/* List the GPUs of all ranks, whose PCI ids have commas between them. Returns how many there are; [gpus] may
 * be NULL, to count them. */
static int list_gpus(const struct facts *facts, int ranks, struct owned_gpu *gpus)
{
    int count = 0;
    for (int i = 0; i < ranks; i++) {
        int length = 0;
        for (const char *at = facts[i].gpus; *at != 0; at += length + (at[length] == ',')) {
            length = (int)strcspn(at, ",");
            if (gpus != NULL) {
                gpus[count] = (struct owned_gpu){.host = facts[i].host, .rank = i};
                snprintf(gpus[count].id, sizeof(gpus[count].id), "%.*s", length, at);
            }
            count++;
        }
    }
    return count;
}

static int count_with_gpus(const struct facts *facts, int ranks)
{
    int with = 0;
    for (int i = 0; i < ranks; i++)
        with += facts[i].gpus[0] != 0;
    return with;
}

/* The first of two neighbours that are the same GPU; NULL: no two ranks share one. */
static const struct owned_gpu *find_shared(const struct owned_gpu *gpus, int count)
{
    for (int i = 0; i + 1 < count; i++)
        if (strcmp(gpus[i].host, gpus[i + 1].host) == 0 && strcmp(gpus[i].id, gpus[i + 1].id) == 0)
            return &gpus[i];
    return NULL;
}

static void check_gpus(const struct facts *facts, int ranks, struct finding *finding)
{
    int with = count_with_gpus(facts, ranks), count = list_gpus(facts, ranks, NULL);
    struct owned_gpu *gpus = calloc((size_t)count + 1, sizeof(*gpus));
    if (gpus == NULL) {
        find(finding, CHECK_WARN, "look at HVD_GPU_PCI of each rank", "no memory to compare %d GPUs", count);
        return;
    }
    list_gpus(facts, ranks, gpus);
    qsort(gpus, (size_t)count, sizeof(*gpus), compare_gpus);
    const struct owned_gpu *shared = find_shared(gpus, count);
    if (shared != NULL)
        find(finding, CHECK_WARN, "start at most one rank a GPU: --ntasks-per-node, --hvd-bind=gpu",
             "ranks %d and %d of %s both have GPU %s", shared[0].rank, shared[1].rank, shared->host,
             shared->id);
    else if (with == 0)
        find(finding, CHECK_OK, NULL, "no rank was given one by hvd's placement");
    else
        find(finding, CHECK_OK, NULL, "%d of %d rank%s with GPUs that no other rank has", with, ranks,
             plural(ranks));
    free(gpus);
}

/* The barrier that ranks left closest together says how far their clocks are apart: a rank that waited for a
 * core in it only seems to be late. */
static void check_clocks(const struct facts *facts, int ranks, struct finding *finding)
{
    int64_t apart_us = INT64_MAX;
    int behind = 0, ahead = 0;
    for (int round = 0; round < CLOCK_ROUNDS; round++) {
        int first = 0, last = 0;
        for (int i = 1; i < ranks; i++) {
            first = facts[i].clock_us[round] < facts[first].clock_us[round] ? i : first;
            last = facts[i].clock_us[round] > facts[last].clock_us[round] ? i : last;
        }
        int64_t us = facts[last].clock_us[round] - facts[first].clock_us[round];
        if (us < apart_us) {
            apart_us = us;
            behind = first;
            ahead = last;
        }
    }
    if (apart_us > CLOCKS_AGREE_US)
        find(finding, CHECK_WARN,
             "run chrony or ntpd on all nodes; munge refuses keys where clocks are minutes apart",
             "%s is %.1f s ahead of %s", facts[ahead].host, (double)apart_us / 1e6, facts[behind].host);
    else
        find(finding, CHECK_OK, NULL, "agree within %d ms", (int)(apart_us / 1000) + 1);
}

const struct job_check job_checks[] = {
    {"versions", check_versions}, {"world", check_size}, {"GPUs", check_gpus}, {"clocks", check_clocks}};

const int job_check_count = (int)(sizeof(job_checks) / sizeof(job_checks[0]));
