/* env_export.c: what hvd writes into the environment of this process. */
#include "net/env_export.h"

#include <stdlib.h>
#include <string.h>

static void withdraw(const struct settings *written)
{
    for (int id = 0; id < SETTING_COUNT; id++) {
        const char *value = getenv(setting_variables[id]);
        if (written->values[id][0] != 0 && value != NULL && strcmp(value, written->values[id]) == 0)
            unsetenv(setting_variables[id]);
    }
}

void exported_withdraw(struct exported *exported)
{
    const char *launchers = getenv(NETWORK_SET_VARIABLE);
    struct settings settings;
    withdraw(&exported->settings);
    exported->settings = (struct settings){.values = {""}};
    if (launchers != NULL && settings_read(launchers, &settings) == 0)
        withdraw(&settings);
    unsetenv(NETWORK_SET_VARIABLE);
}

static bool is_set_by_user(enum setting_id id)
{
    const char *opposite = setting_opposite(id);
    return getenv(setting_variables[id]) != NULL || (opposite != NULL && getenv(opposite) != NULL);
}

int exported_write(struct exported *exported, const struct settings *settings, struct hvd_error *err)
{
    for (int id = 0; id < SETTING_COUNT; id++) {
        const char *value = settings->values[id];
        if (value[0] == 0 || is_set_by_user((enum setting_id)id))
            continue;
        if (setenv(setting_variables[id], value, 0) < 0)
            return error_set_errno(err, "cannot set %s", setting_variables[id]);
        memcpy(exported->settings.values[id], value, SETTING_BYTES);
    }
    return HVD_OK;
}
