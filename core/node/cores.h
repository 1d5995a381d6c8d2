/* cores.h: which cores ranks may run on, and whether each of a node's ranks can have some to itself. */
#ifndef NODE_CORES_H
#define NODE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#define CORES_MAX   8192
#define CORES_WORDS (CORES_MAX / 64)

/* A set of them, by the system's numbers; empty: not known. */
struct cores {
    uint64_t words[CORES_WORDS];
};

/* Whether they suffice for the ranks of a node. */
struct oversubscription {
    bool oversubscribed; /* ranks share cores */
    bool no_spare_core;  /* some have no second one, for a thread beside the program's */
    bool apart;          /* some may run on others than others: somebody has bound them */
    struct cores all;    /* those that any of them may run on; empty where there is only one */
};

/* Those that the calling thread may run on. */
void cores_of_thread(struct cores *cores);

/* The NUMA node of the core that the calling thread runs on, which it may leave where it is not bound; -1:
 * not known. */
int cores_numa_domain(void);

/* The bytes of a core's second-level cache, of the one that runs this where they differ; 0: not known. */
int64_t cores_l2_bytes(void);

/* Are there [each] cores for each of [count] ranks, among those that it may run on, that no other gets? Ranks
 * of which nothing is known need none. Pure. */
bool cores_suffice(const struct cores *ranks, int count, int each);

#endif
