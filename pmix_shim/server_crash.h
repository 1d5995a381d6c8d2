/* server_crash.h: what the process of the PMIx server says when it crashes. */
#ifndef PMIX_SHIM_SERVER_CRASH_H
#define PMIX_SHIM_SERVER_CRASH_H

#include "pmix_shim/event_channel.h"

/* From now on a crash posts SERVER_CRASHES to [channel], which must stay, before the process ends. */
void server_crash_report(const struct event_channel *channel);

#endif
