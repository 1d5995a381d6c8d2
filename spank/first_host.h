/* first_host.h: does this node find the node of rank 0 by its name? */
#ifndef SPANK_FIRST_HOST_H
#define SPANK_FIRST_HOST_H

#include <slurm/spank.h>
#include <stdbool.h>

#define FIRST_HOST_BYTES 256

/* The node of rank 0. */
struct first_host {
    char name[FIRST_HOST_BYTES];
    bool here; /* it is this node, which may know itself by a loopback address */
};

/* In slurmstepd, before it forks tasks: a child that is the user looks the name up, and is waited for, at
 * most FIRST_HOST_LOOKUP_US; a resolver may block far longer. True where there is no such child: it is not
 * known then that the name is bad. */
#define FIRST_HOST_LOOKUP_US INT64_C(2000000)
bool first_host_resolves(spank_t spank, struct first_host *first);

#endif
