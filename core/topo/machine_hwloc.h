/* machine_hwloc.h: the parts of the translation from a hwloc topology. Only for core/topo/machine_*.c. */
#ifndef TOPO_MACHINE_HWLOC_H
#define TOPO_MACHINE_HWLOC_H

#include <hwloc.h>

#include "topo/machine.h"

/* Returns -1 where a member is too large or the set has no end. */
int bitmap_from_hwloc(hwloc_const_bitmap_t from, struct bitmap *to);

/* What a topology says of itself, as printable text; cut where it is too long. */
void copy_printable(char *to, size_t to_bytes, const char *from);

/* "" where it is not told. */
const char *object_info(hwloc_obj_t object, const char *name);

/* GPUs and network cards. */
int machine_add_devices(struct machine *machine, hwloc_topology_t topology, struct hvd_error *err);

/* Sort them, read what is live, and judge the network cards. */
void machine_finish(struct machine *machine, const struct machine_source *source);

#endif
