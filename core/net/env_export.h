/* env_export.h: what hvd writes into the environment of this process, for libraries that read it later. */
#ifndef NET_ENV_EXPORT_H
#define NET_ENV_EXPORT_H

#include "base/status.h"
#include "net/network_env.h"

/* What was written last; zeroed: nothing. */
struct exported {
    struct settings settings;
};

/* Take back what was written, here or by the launcher, and is still as it was, so that it does not look like
 * a user's. */
void exported_withdraw(struct exported *exported);

/* Write [settings]; a variable that is set already, or whose opposite is, is its user's, and stays. HVD_OK or
 * HVD_ERR_NO_MEMORY. */
int exported_write(struct exported *exported, const struct settings *settings, struct hvd_error *err);

#endif
