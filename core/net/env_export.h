/* env_export.h: what hvd writes into the environment of this process, for libraries that read it later. */
#ifndef NET_ENV_EXPORT_H
#define NET_ENV_EXPORT_H

#include "base/status.h"
#include "net/network_env.h"

/* What was written last; zeroed: nothing. */
struct env_export {
    struct nic_env settings;
};

/* Take back what was written, here or by the launcher, and is still as it was, so that it does not look like
 * a user's. */
void env_export_withdraw(struct env_export *env_export);

/* Write [settings]; a variable that is set already, or whose opposite is, is its user's, and stays. HVD_OK or
 * HVD_ERR_NO_MEMORY. */
int env_export_write(struct env_export *env_export, const struct nic_env *settings, struct hvd_error *err);

#endif
