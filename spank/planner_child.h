/* planner_child.h: the child of slurmstepd that looks at the node as the user, plans, and replies through a
 * pipe. */
#ifndef SPANK_PLANNER_CHILD_H
#define SPANK_PLANNER_CHILD_H

#include "spank/planner_reply.h"
#include "spank/user_child.h"
#include "topo/node_placement.h"

/* The request to the child. */
struct planner_request {
    struct node_placement placement; /* the child fills in its cpus */
    const char *cores;               /* granted to the step, as Slurm numbers them, "0-3"; NULL: unknown */
    struct step_user owner;
};

/* What the child does once it is the user: write the reply to [fd]. Tests pass other functions. */
typedef void planner_work_f(const struct planner_request *request, int fd);
planner_work_f planner_plan;

/* The work of the child: run [work] on [request] and a pipe. */
struct planner_task {
    const struct planner_request *request;
    planner_work_f *work;
};
user_child_f planner_main;

/* For tests: translate Slurm's list of [cores] to CPUs of [machine]. Slurm counts cores in the order of the
 * machine and grants each with all its threads. Returns false, with [cpus] unchanged, if the text is not a
 * list or names a core that does not exist. */
bool planner_cpus_of_cores(const struct machine *machine, const char *cores, struct bitmap *cpus);

#endif
