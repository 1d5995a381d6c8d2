/* options.h: the options of the table as SPANK knows them, and the values that a step was given. */
#ifndef SPANK_OPTIONS_H
#define SPANK_OPTIONS_H

#include <slurm/spank.h>

#include "options/config.h"

/* Register every option of the table as --hvd-<name>. To be called in slurm_spank_init. */
void options_register(spank_t spank);

/* In slurmstepd: the values that this step was given, as HVD_CLI carries them, into [list], which has
 * CONFIG_LIST_BYTES + 1 bytes; "" where it was given none. Returns HVD_OK, or HVD_ERR_INVALID and [list]
 * unchanged where one was refused here although srun let it pass. */
int options_list(char *list, struct hvd_error *err);

/* In slurmstepd: was this step given any? */
bool options_given(void);

#endif
