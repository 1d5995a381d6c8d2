/* env_export.h: what hvd writes into the environment of this process, for libraries that read it later. */
#ifndef NET_ENV_EXPORT_H
#define NET_ENV_EXPORT_H

#include "base/status.h"
#include "net/network_env.h"

/* What was written last; empty if zeroed. */
struct env_export {
    struct nic_env settings;
};

/* Unset each variable that hvd or its launcher wrote and that still has the value written, so that it is
 * not taken for the user's. */
void env_export_withdraw(struct env_export *env_export);

/* Write [settings]. A variable that is already set, or whose opposite is set, belongs to the user and is
 * kept. HVD_OK or HVD_ERR_NO_MEMORY. */
int env_export_write(struct env_export *env_export, const struct nic_env *settings, struct hvd_error *err);

#endif
