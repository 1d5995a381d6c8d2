/* env_export.c: what hvd writes into the environment of this process. */
#include "net/env_export.h"

#include <stdlib.h>
#include <string.h>

static void unset_unchanged(const struct nic_env *written)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        const char *value = getenv(nic_env_names[id]);
        if (written->values[id][0] != 0 && value != NULL && strcmp(value, written->values[id]) == 0)
            unsetenv(nic_env_names[id]);
    }
}

void env_export_withdraw(struct env_export *env_export)
{
    const char *launcher_value = getenv(NETWORK_SET_VARIABLE);
    struct nic_env settings;
    unset_unchanged(&env_export->settings);
    env_export->settings = (struct nic_env){.values = {""}};
    if (launcher_value != NULL && nic_env_parse(launcher_value, &settings) == 0)
        unset_unchanged(&settings);
    unsetenv(NETWORK_SET_VARIABLE);
}

static bool is_set_by_user(enum nic_env_id id)
{
    const char *opposite = nic_env_opposite(id);
    return getenv(nic_env_names[id]) != NULL || (opposite != NULL && getenv(opposite) != NULL);
}

int env_export_write(struct env_export *env_export, const struct nic_env *settings, struct hvd_error *err)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        const char *value = settings->values[id];
        if (value[0] == 0 || is_set_by_user((enum nic_env_id)id))
            continue;
        if (setenv(nic_env_names[id], value, 0) < 0)
            return error_set_errno(err, "cannot set %s", nic_env_names[id]);
        memcpy(env_export->settings.values[id], value, NIC_ENV_BYTES);
    }
    return HVD_OK;
}
