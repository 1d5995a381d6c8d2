/* plugin_check.h: does this rank lack what the plug-in gives each task of a step that uses hvd? */
#ifndef API_PLUGIN_CHECK_H
#define API_PLUGIN_CHECK_H

#include "base/status.h"

/* HVD_ERR_INVALID, with a sentence, where srun has started the step with the plug-in, and this node has none.
 * srun is told too, because there is nobody else on this node who could. */
int plugin_check(struct hvd_error *err);

#endif
