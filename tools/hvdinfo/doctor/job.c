/* job.c: what the ranks of a job are like together: the same programs, GPUs of their own, clocks that agree.
 */
#include "tools/hvdinfo/doctor/job.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "options/parse.h"

#define CLOCKS_AGREE_US INT64_C(100000)

int64_t job_claimed(char *const *environment)
{
    static const char *const variables[] = {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE",
                                            "JSM_NAMESPACE_SIZE", "WORLD_SIZE"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = environment_value(environment, variables[i]);
        const char *why;
        int64_t count = 0;
        if (text != NULL && parse_count(text, &count, &why) == 0)
            return count;
    }
    return 0;
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

/* Is one of the PCI ids in [list], separated by commas, in [other] too? It is then written to [id]. */
static bool share_gpu(const char *list, const char *other, char id[32])
{
    for (const char *at = list; *at != 0; at += strspn(at, ",")) {
        int length = (int)strcspn(at, ",");
        snprintf(id, 32, "%.*s", length, at);
        if (length > 0 && strstr(other, id) != NULL)
            return true;
        at += length;
    }
    return false;
}

static void check_gpus(const struct facts *facts, int ranks, struct finding *finding)
{
    char id[32];
    int with = 0;
    for (int i = 0; i < ranks; i++) {
        with += facts[i].gpus[0] != 0;
        for (int k = 0; k < i; k++) {
            if (strcmp(facts[i].host, facts[k].host) != 0 || !share_gpu(facts[k].gpus, facts[i].gpus, id))
                continue;
            find(finding, CHECK_WARN, "start at most one rank a GPU: --ntasks-per-node, --hvd-bind=gpu",
                 "ranks %d and %d of %s both have GPU %s", k, i, facts[i].host, id);
            return;
        }
    }
    if (with == 0)
        find(finding, CHECK_OK, NULL, "no rank was given one by hvd's placement");
    else
        find(finding, CHECK_OK, NULL, "%d of %d rank%s with GPUs that no other rank has", with, ranks,
             plural(ranks));
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
