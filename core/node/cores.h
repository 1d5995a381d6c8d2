/* cores.h: which cores ranks may run on, and whether each of a node's ranks can have some to itself. */
#ifndef NODE_CORES_H
#define NODE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#define CORES_MAX   8192
#define CORES_WORDS (CORES_MAX / 64)

/* A set of cores, by the kernel's numbers; empty: not known. */
struct cores {
    uint64_t words[CORES_WORDS];
};

/* Whether the cores of a node suffice for its ranks. */
struct oversubscription {
    bool oversubscribed; /* ranks share cores */
    bool no_spare_core;  /* some rank has no second core, for a thread besides the program's */
    bool apart;          /* the ranks may not all run on the same cores: somebody has bound them */
    struct cores all;    /* the cores that any of the ranks may run on; empty if there is only one rank */
};

/* Get the cores that the calling thread may run on. */
void cores_of_thread(struct cores *cores);

/* The size in bytes of the second-level cache of the core that runs this call; 0: not known. */
int64_t cores_l2_bytes(void);

/* Can each of [count] ranks have [each] cores to itself, among those that it may run on? A rank whose cores
 * are not known needs none. Without memory to find out: no. */
bool cores_suffice(const struct cores *ranks, int count, int each);

#endif
