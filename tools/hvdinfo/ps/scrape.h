/* scrape.h: a socket of this machine where metrics are asked for, by HTTP. */
#ifndef TOOLS_HVDINFO_PS_SCRAPE_H
#define TOOLS_HVDINFO_PS_SCRAPE_H

#include <stdio.h>

#include "base/status.h"

/* Before the path of a socket, where a file may stand as well. */
#define SCRAPE_PREFIX "unix:"

/* What writes the metrics of this moment. An error goes to the one that asks. */
typedef int scrape_f(FILE *to, const void *arg, struct hvd_error *err);

/* Listen at [path] until SIGTERM, SIGINT or SIGHUP, and answer all that ask, one after the other. Only this
 * user, and root, may connect. HVD_ERR_INVALID with a sentence where it cannot listen. */
int scrape_serve(const char *path, scrape_f *write, const void *arg, struct hvd_error *err);

#endif
