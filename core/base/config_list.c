/* config_list.c: add to the lists that carry command line and site values to the ranks. */
#include "base/config.h"

#include <stdio.h>
#include <string.h>

int config_list_add(char *list, const struct hvd_option *option, const char *value, struct hvd_error *err)
{
    size_t used = strlen(list);
    size_t more = (used > 0) + strlen(option->name) + 1 + strlen(value);
    if (strchr(value, ';') != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%s=%.64s: the value holds a ';', which cannot be handed on to the ranks",
                         option->name, value);
    if (used + more > CONFIG_LIST_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s=%.64s: all options together are longer than %d bytes",
                         option->name, value, CONFIG_LIST_BYTES);
    snprintf(list + used, CONFIG_LIST_BYTES + 1 - used, "%s%s=%s", used > 0 ? ";" : "", option->name, value);
    return HVD_OK;
}
