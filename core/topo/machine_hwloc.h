/* machine_hwloc.h: the stages of translating an hwloc topology into a machine. Only for
 * core/topo/machine_*.c. */
#ifndef TOPO_MACHINE_HWLOC_H
#define TOPO_MACHINE_HWLOC_H

#include <hwloc.h>

#include "topo/machine.h"

/* Returns -1 if a member is too large or the set is infinite. */
int bitmap_from_hwloc(hwloc_const_bitmap_t from, struct bitmap *to);

/* Copy a text of a topology as printable characters. Cut if it is too long. */
void copy_printable(char *to, size_t to_bytes, const char *from);

/* The value of an info attribute, or "" if the object has none. */
const char *object_info(hwloc_obj_t object, const char *name);

/* Add GPUs and network cards to the machine. */
int machine_add_devices(struct machine *machine, hwloc_topology_t topology, struct hvd_error *err);

/* Sort the devices, read the state of a live machine, and run nics_select on the network cards. */
void machine_finish(struct machine *machine, const struct machine_source *source);

#endif
