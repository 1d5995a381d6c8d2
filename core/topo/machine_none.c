/* machine_none.c: machine_load in a build without hwloc: always an error. */
#include "topo/machine.h"

int machine_load(const struct machine_source *source, struct machine **machinep, struct hvd_error *err)
{
    (void)source;
    (void)machinep;
    return error_set(
        err, HVD_ERR_UNSUPPORTED,
        "hvd was built without hwloc and cannot place tasks; build it with hwloc, or give --hvd-bind=none");
}
