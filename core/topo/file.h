/* file.h: read a whole file that a user named. */
#ifndef TOPO_FILE_H
#define TOPO_FILE_H

#include <stddef.h>

#include "base/status.h"

/* Read a regular file of at most [max] bytes into *textp, which the caller frees. The text ends with a 0 that
 * *bytesp does not count. Sentences call the expected contents [what], such as "a topology". Returns HVD_OK,
 * or HVD_ERR_INVALID, HVD_ERR_SYSTEM or HVD_ERR_NO_MEMORY with a sentence. */
int file_read(const char *path, const char *what, size_t max, char **textp, size_t *bytesp,
              struct hvd_error *err);

#endif
