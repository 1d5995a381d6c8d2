/* scratch.h: the private temporary folder of one hvdrun. */
#ifndef TOOLS_SCRATCH_H
#define TOOLS_SCRATCH_H

#include <stddef.h>

#include "base/status.h"

/* Make an empty folder that only this user can enter, in TMPDIR or /tmp, and write its name into [path]. */
int scratch_make(char *path, size_t path_bytes, struct hvd_error *err);

/* The same in /dev/shm, for what must not be written to a disk; "" where that cannot be. */
void scratch_make_shared(char *path, size_t path_bytes);

/* Remove it with all that is in it, as far as that can be done; "" is fine. */
void scratch_remove(const char *path);

#endif
