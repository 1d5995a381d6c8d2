/* options.h: register the options of the table with SPANK, and keep the values that a step was given. */
#ifndef SPANK_OPTIONS_H
#define SPANK_OPTIONS_H

#include <slurm/spank.h>

#include "options/config.h"

/* Register every option of the table as --hvd-<name>. Call it in slurm_spank_init. */
void options_register(spank_t spank);

/* In slurmstepd: write the values that this step was given as HVD_CLI carries them into [list], which has
 * CONFIG_LIST_BYTES + 1 bytes; "" if it was given none. Returns HVD_OK, or HVD_ERR_INVALID with [list]
 * unchanged if a value was refused here although srun accepted it. */
int options_list(char *list, struct hvd_error *err);

/* In slurmstepd: was this step given any options of hvd? */
bool options_given(void);

#endif
