/* srun.h: what the plug-in does in srun for steps that use hvd: make PMIx their MPI type, and draw a secret.
 */
#ifndef SPANK_SRUN_H
#define SPANK_SRUN_H

#include "base/status.h"
#include "spank/site.h"
#include "spank/switch.h"

/* How the secret travels from srun to the tasks: Slurm hands variables with this prefix on even if the user
 * wants none (--export=NONE). */
#define SRUN_SECRET_VARIABLE "SLURM_HVD_JOB_KEY"

/* Set for slurmstepd while the site has hvd switched off where srun runs. */
#define SRUN_OFF_VARIABLE "SLURM_HVD_OFF"

/* What srun was told of the use of hvd. */
struct srun_use {
    bool options;              /* an option of hvd was given */
    bool elastic;              /* --hvd-min was */
    bool kill_chosen;          /* so was --kill-on-bad-exit, or its variable is set */
    bool starts_launcher;      /* the command is what mpirun or mpiexec starts on each node */
    int fewest, spares;        /* what the environment says of it and of --hvd-spares; 0: no number */
    enum hvd_switch by_switch; /* the last --hvd */
    struct hvd_error mistake;  /* what will go wrong with an option as it is written; "": nothing */
};

/* For tests: look for options of hvd among srun's own arguments. [argv] is srun's, and [argv][0] is srun.
 * What follows the command of a step belongs to the command and does not count. If in doubt an option counts:
 * a word that may be the value of an option that we do not know is regarded as its value and not as the
 * command. */
void srun_read_arguments(int argc, char *const argv[], struct srun_use *use);

/* For tests: look for options of hvd that sbatch, salloc or an outer srun handed down in [environment]
 * ("NAME=value", NULL-terminated), and for the user's own variables. */
void srun_read_environment(char *const environment[], struct srun_use *use);

/* For tests: is there a pmix plug-in for MPI in the folder of [file], one of Slurm's objects? */
bool srun_finds_pmix_beside(const char *file);

/* Does the step of this srun use hvd, by its command line, by its environment or by the site's choice? And is
 * it elastic? */
bool srun_uses_hvd(const struct site *site);
bool srun_is_elastic(void);

/* May a task that fails before hvd_init end the step? Not if the user has said what a bad exit does, nor if
 * only the site's steps=all makes the step use hvd: its ranks may know nothing of each other. */
bool srun_may_end_early(void);

/* How many ranks an elastic step must have at least, and how many of its ranks are spares, by the
 * environment; 0 where that does not say. */
void srun_counts_in_environment(int *fewestp, int *sparesp);

/* In srun, sbatch and salloc: the sentence that helps with an option of hvd on the command line that Slurm
 * will not take as it is meant; "" if there is none. */
void srun_find_mistake(struct hvd_error *mistake);

/* In an srun by which mpirun or mpiexec starts its daemons inside a step of hvd: let them share the CPUs of
 * that step. Their step would wait for its end, which waits for them. A SLURM_OVERLAP that is set takes
 * precedence. */
void srun_share_cpus(void);

/* Hand down to the nodes whether the site has hvd switched off. */
void srun_hand_down_off(bool off);

/* Draw the secret of this step's ranks, and hand it to stepd_task_init by the environment. */
void srun_draw_secret(void);

/* Make PMIx the default MPI type of this srun if Slurm has PMIx. srun reads
 * SLURM_MPI_TYPE after the plug-ins have started and before its own arguments, so --mpi takes precedence, and
 * so does a SLURM_MPI_TYPE that is already set. */
void srun_prefer_pmix(void);

/* Let this srun outlive tasks that die: no MPI type, as the servers of others end a step that loses a task,
 * no end at the first bad exit, and none with a node. The user's own choices take precedence. */
void srun_survive(void);

#endif
