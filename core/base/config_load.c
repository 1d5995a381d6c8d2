/* config_load.c: the options in force in a program, with those of the file that its user names. */
#include "base/config.h"
#include "base/config_file.h"

int config_load(struct hvd_config *config, char *const *environment, void (*warn)(const char *sentence),
                struct hvd_error *err)
{
    return config_load_with(config_file_read, config, environment, warn, err);
}
