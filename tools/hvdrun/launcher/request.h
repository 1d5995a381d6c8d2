/* request.h: how many ranks run on which hosts, by which launcher. */
#ifndef TOOLS_HVDRUN_LAUNCHER_REQUEST_H
#define TOOLS_HVDRUN_LAUNCHER_REQUEST_H

#include "tools/hvdrun/launcher/line.h"

/* Read hosts and facts, and choose. [options] and [environment] must stay valid; where the hosts alone say
 * how many ranks there are, options->ranks is set. Free request->hosts with host_list_free, in any case.
 * Returns HVD_OK, or HVD_ERR_INVALID or HVD_ERR_NO_MEMORY. */
int launch_request_read(struct line_request *request, struct launch_facts *facts,
                        struct hvdrun_options *options, char *const *environment,
                        struct launch_choice *choice, struct hvd_error *err);

#endif
