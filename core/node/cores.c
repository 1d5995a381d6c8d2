/* cores.c: which cores ranks may run on, and whether each of a node's ranks can have some to itself. */
#include "node/cores.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The cpu_set_t of glibc's call ends at core 1023. */
void cores_of_thread(struct cores *cores)
{
    memset(cores, 0, sizeof(*cores));
    if (syscall(SYS_sched_getaffinity, 0, sizeof(cores->words), cores->words) < 0)
        memset(cores, 0, sizeof(*cores));
}

int64_t cores_l2_bytes(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? bytes : 0;
#else
    return 0;
#endif
}

/* A matching of ranks and cores that grows rank by rank. */
struct matching {
    const struct cores *ranks;
    int *rank_of;       /* [CORES_MAX]; -1: no rank has the core */
    struct cores tried; /* cores tried for the rank that gets a core now */
};

/* Assign one more core to [rank]; other ranks may have to move to other cores for it. */
static bool assign_core(struct matching *matching, int rank)
{
    for (int i = 0; i < CORES_WORDS; i++) {
        uint64_t left = matching->ranks[rank].words[i] & ~matching->tried.words[i];
        while (left != 0) {
            int core = i * 64 + __builtin_ctzll(left);
            matching->tried.words[i] |= left & -left;
            if (matching->rank_of[core] < 0 || assign_core(matching, matching->rank_of[core])) {
                matching->rank_of[core] = rank;
                return true;
            }
            left = matching->ranks[rank].words[i] & ~matching->tried.words[i];
        }
    }
    return false;
}

static bool is_known(const struct cores *cores)
{
    uint64_t any = 0;
    for (int i = 0; i < CORES_WORDS; i++)
        any |= cores->words[i];
    return any != 0;
}

bool cores_suffice(const struct cores *ranks, int count, int each)
{
    struct matching matching = {.ranks = ranks, .rank_of = malloc(CORES_MAX * sizeof(int))};
    bool suffice = matching.rank_of != NULL;
    for (int core = 0; suffice && core < CORES_MAX; core++)
        matching.rank_of[core] = -1;
    for (int i = 0; i < count * each && suffice; i++) {
        memset(&matching.tried, 0, sizeof(matching.tried));
        suffice = !is_known(&ranks[i / each]) || assign_core(&matching, i / each);
    }
    free(matching.rank_of);
    return suffice;
}
