/* options.h: register the options of the table with SPANK, and keep the values that a step was given. */
#ifndef SPANK_OPTIONS_H
#define SPANK_OPTIONS_H

#include <slurm/spank.h>

#include "options/config.h"
#include "spank/site.h"

/* Register --hvd, and every option of the table as --hvd-<name>. Call it in slurm_spank_init. */
void options_register(spank_t spank);

/* In slurmstepd, sbatch and salloc: write the values that this step or job was given as HVD_CLI carries them
 * into [list], which has CONFIG_LIST_BYTES + 1 bytes; "" if it was given none. Returns HVD_OK, or
 * HVD_ERR_INVALID with [list] unchanged if a value was refused here although srun accepted it. */
int options_list(char *list, struct hvd_error *err);

/* In srun: how many ranks --hvd-min and --hvd-spares ask for; 0: not given on the command line. */
int options_fewest(void);
int options_spares(void);

/* In slurmstepd: was --hvd=off given? */
bool options_switched_off(void);

/* In slurmstepd: does this step use hvd? It does if it was given an option, or has a variable of one, or if
 * the site says so; --hvd=off takes precedence over all of these. */
bool options_use_hvd(const struct site *site, char *const *environment);

#endif
