/* launcher.h: which launcher starts the ranks: hvdrun itself on this machine or by agents on several, or one
 * that hvdrun becomes.
 *
 * The folder promises hvdrun this choice and the command line of the launcher that was chosen. hvdrun starts
 * nothing on other machines by itself: Slurm's srun, LSF's jsrun, prterun and mpirun do. Its stages: facts.c
 * reads what there is, launcher.c chooses, line.c with srun.c, jsrun.c and mpirun.c writes the command line,
 * show.c prints it, and foreign.c runs it. hosts.c reads lists of hosts. */
#ifndef TOOLS_HVDRUN_LAUNCHER_LAUNCHER_H
#define TOOLS_HVDRUN_LAUNCHER_LAUNCHER_H

#include <stdbool.h>

#include "base/status.h"
#include "tools/common/outer_tasks.h"

enum launcher {
    LAUNCHER_AUTO, /* not chosen yet */
    LAUNCHER_LOCAL,
    LAUNCHER_SRUN,
    LAUNCHER_JSRUN,
    LAUNCHER_PRTERUN,
    LAUNCHER_MPIRUN,
    LAUNCHER_AGENTS, /* srun starts agents of hvdrun, and these the ranks */
    LAUNCHER_COUNT
};

/* Its name as --launcher takes it, which is also that of its program. */
const char *launcher_name(enum launcher launcher);
/* Returns false if no launcher has that name. */
bool launcher_parse(const char *name, enum launcher *launcherp);

/* Where hvdrun runs. Texts point into the environment. */
struct launch_facts {
    struct outer_tasks outer;   /* of which hvdrun itself is one */
    const char *slurm_job;      /* its number; NULL: this is no Slurm job */
    int slurm_nodes;            /* of the job; 0: unknown */
    int slurm_tasks;            /* of the job; 0: unknown */
    int slurm_cpus;             /* per task; 0: unknown */
    const char *lsf_job;        /* its number; NULL: this is no LSF job */
    bool found[LAUNCHER_COUNT]; /* its program is in PATH */
};

/* What the user asks for. */
struct launch_wish {
    enum launcher launcher; /* by --launcher */
    int host_count;         /* of -H or --hostfile; 0: not given */
    const char *elsewhere;  /* the first of them that is not this machine; NULL: none */
    int lsf_nodes;          /* hosts of the LSF job */
};

struct launch_choice {
    enum launcher launcher;
    char why[160]; /* "this is Slurm job 12, which has 2 nodes" */
};

/* Pure. HVD_ERR_INVALID with the message for the user if the wish cannot be met. */
int launcher_choose(const struct launch_facts *facts, const struct launch_wish *wish,
                    struct launch_choice *choice, struct hvd_error *err);

/* Is this the first of several tasks of another launcher, each of which may start a job here? Then [text]
 * warns of that. Pure. */
bool launcher_warns(const struct launch_facts *facts, const struct launch_choice *choice,
                    struct hvd_error *text);

#endif
