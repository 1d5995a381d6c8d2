/* scratch.h: the private temporary folders of one hvdrun. The name is chosen first; the folder is created
 * later, by the process that will remove it. */
#ifndef TOOLS_HVDRUN_SCRATCH_H
#define TOOLS_HVDRUN_SCRATCH_H

#include <stddef.h>

#include "base/status.h"

/* Write into [path] the name of a folder that does not exist yet, in TMPDIR or /tmp. */
int scratch_make_name(char *path, size_t path_bytes, struct hvd_error *err);

/* The same in /dev/shm, for data that must not be written to a disk; "" if /dev/shm is not writable. */
void scratch_name_shared(char *path, size_t path_bytes);

/* Create the folder, accessible to this user alone, and lock it until this process ends. Returns 0, or -1
 * with errno. Does nothing for "". */
int scratch_make(const char *path);

/* Remove other such folders beside [path], of this user and host, whose processes have ended: they were
 * killed before they could do that. Does nothing for "". */
void scratch_remove_abandoned(const char *path);

/* Remove the folder with its contents, as far as possible. Does nothing for "". */
void scratch_remove(const char *path);

#endif
