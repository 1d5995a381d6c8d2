/* foreign_options.h: options of torchrun and mpirun: what those mean that hvdrun takes, and what it has in
 * place of the others. */
#ifndef TOOLS_HVDRUN_FOREIGN_OPTIONS_H
#define TOOLS_HVDRUN_FOREIGN_OPTIONS_H

#include "tools/common/option_reader.h"
#include "tools/hvdrun/options.h"

/* Take the value of an option into the struct hvdrun_options [to]: of one that hvdrun need not be told;
 * --nnodes; --node-rank; --tee and --redirects. HVD_OK, or HVD_ERR_INVALID with the message for the user. */
int torchrun_take_unneeded(void *to, const struct option_given *given, struct hvd_error *err);
int torchrun_take_nodes(void *to, const struct option_given *given, struct hvd_error *err);
int torchrun_take_node_rank(void *to, const struct option_given *given, struct hvd_error *err);
int torchrun_take_streams(void *to, const struct option_given *given, struct hvd_error *err);

/* Once all options and programs are read: do they agree, and how many ranks do they ask agents for? */
int torchrun_check(struct hvdrun_options *options, struct hvd_error *err);

/* What to do in place of option [name] of theirs, as a clause; NULL: hvdrun knows none of that name. */
const char *spelling_here(const char *name);

#endif
