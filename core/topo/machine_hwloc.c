/* machine_hwloc.c: sets and texts of hwloc as those of a machine. */
#include "topo/machine_hwloc.h"

int bitmap_from_hwloc(hwloc_const_bitmap_t from, struct bitmap *to)
{
    int member;
    *to = (struct bitmap){{0}};
    if (from == NULL)
        return 0;
    if (hwloc_bitmap_weight(from) < 0)
        return -1;
    hwloc_bitmap_foreach_begin(member, from)
    {
        if (member >= BITMAP_BITS)
            return -1;
        bitmap_set(to, member);
    }
    hwloc_bitmap_foreach_end();
    return 0;
}

void copy_printable(char *to, size_t to_bytes, const char *from)
{
    size_t used = 0;
    for (; *from != 0 && used + 1 < to_bytes; from++)
        to[used++] = *from < ' ' || *from > '~' ? '?' : *from;
    while (used > 0 && to[used - 1] == ' ')
        used--;
    to[used] = 0;
}

const char *object_info(hwloc_obj_t object, const char *name)
{
    const char *value = object == NULL ? NULL : hwloc_obj_get_info_by_name(object, name);
    return value == NULL ? "" : value;
}
