/* scratch.h: the private temporary folders of one hvdrun. */
#ifndef TOOLS_HVDRUN_SCRATCH_H
#define TOOLS_HVDRUN_SCRATCH_H

#include <stddef.h>

#include "base/status.h"

/* Write into [path] the name of a folder that is not there yet, in TMPDIR or /tmp. It is made later, by the
 * one who is sure to remove it. */
int scratch_make_name(char *path, size_t path_bytes, struct hvd_error *err);

/* The same in /dev/shm, for what must not be written to a disk; "" where that cannot be. */
void scratch_name_shared(char *path, size_t path_bytes);

/* Make it, for this user alone: 0, or -1 with errno. "" is fine. */
int scratch_make(const char *path);

/* Remove it with all that is in it, as far as that can be done; "" is fine. */
void scratch_remove(const char *path);

#endif
