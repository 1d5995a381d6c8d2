/* exported.c: what hvd writes into the environment of this process. */
#include "exported.h"

#include <stdlib.h>
#include <string.h>

void exported_withdraw(struct exported *exported)
{
    for (int id = 0; id < SETTING_COUNT; id++) {
        char *ours = exported->settings.values[id];
        const char *value = getenv(setting_variables[id]);
        if (ours[0] != 0 && value != NULL && strcmp(value, ours) == 0)
            unsetenv(setting_variables[id]);
        ours[0] = 0;
    }
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
