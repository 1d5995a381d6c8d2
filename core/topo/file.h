/* file.h: read a whole file that a user has named. */
#ifndef TOPO_FILE_H
#define TOPO_FILE_H

#include <stddef.h>

#include "base/status.h"

/* A regular file of at most [max] bytes into *textp, to be freed, ended by a 0 that *bytesp does not count.
 * [what] is what is expected, "a topology". HVD_ERR_INVALID, HVD_ERR_SYSTEM or HVD_ERR_NO_MEMORY with a
 * sentence. */
int file_read(const char *path, const char *what, size_t max, char **textp, size_t *bytesp,
              struct hvd_error *err);

#endif
