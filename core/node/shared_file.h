/* shared_file.h: files without a name that the ranks of a node map, of a size that cannot change. */
#ifndef NODE_SHARED_FILE_H
#define NODE_SHARED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Make one of [bytes] zeros, which cost nothing until they are used: a sealed memfd in *fdp, close-on-exec,
 * that the system's lists call [name]. */
int shared_file_create(const char *name, size_t bytes, int *fdp, struct hvd_error *err);

/* The size of what another rank made. Refused where it is not sealed. */
int shared_file_size(int fd, int64_t *bytesp, struct hvd_error *err);

#endif
