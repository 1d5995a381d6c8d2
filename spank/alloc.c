/* alloc.c: what the plug-in does in sbatch and salloc. */
#include "config.h"
#include "spank/alloc.h"

#include <stdlib.h>

#include "spank/options.h"

void alloc_hand_down(const struct site *site)
{
    char list[CONFIG_LIST_BYTES + 1] = "";
    struct hvd_error err = {""};
    int rc = options_list(list, &err); /* fails only for values that were refused before */
    if (rc == HVD_OK && list[0] != 0)
        setenv(CONFIG_CLI_VARIABLE, list, 1);
    if (site->list[0] != 0)
        setenv(CONFIG_SITE_VARIABLE, site->list, 1);
}
