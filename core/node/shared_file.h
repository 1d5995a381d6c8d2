/* shared_file.h: files without a name that the ranks of a node map. Their size cannot change. */
#ifndef NODE_SHARED_FILE_H
#define NODE_SHARED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Make a file of [bytes] zeros, which take no memory until they are used: a sealed memfd in *fdp,
 * close-on-exec. /proc shows it under [name]. */
int shared_file_create(const char *name, size_t bytes, int *fdp, struct hvd_error *err);

/* The size of a file that another rank made. Refused if the file is not sealed. */
int shared_file_size(int fd, int64_t *bytesp, struct hvd_error *err);

/* Make an empty file: a memfd in *fdp, close-on-exec, for shared_file_fill. */
int shared_file_create_empty(const char *name, int *fdp, struct hvd_error *err);

/* Write the whole content of such a file. From then on nobody can change it. */
int shared_file_fill(int fd, const void *bytes, size_t length, struct hvd_error *err);

/* Map a filled file for reading. Refused where anybody can still change it. */
int shared_file_map(int fd, const void **bytesp, size_t *lengthp, struct hvd_error *err);

#endif
