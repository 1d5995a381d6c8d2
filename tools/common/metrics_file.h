/* metrics_file.h: a file with metrics, which readers always find whole. */
#ifndef TOOLS_COMMON_METRICS_FILE_H
#define TOOLS_COMMON_METRICS_FILE_H

#include <stdio.h>

#include "base/status.h"

/* What writes the metrics, which are its [arg]. */
typedef void metrics_write_f(FILE *to, const void *arg);

/* Let [write] write beside the file [path], which [option] has named, under a name that ends in .tmp, and
 * rename that. HVD_ERR_INVALID with a sentence if it cannot; [path] is then as it was. */
int metrics_file_write(const char *option, const char *path, metrics_write_f *write, const void *arg,
                       struct hvd_error *err);

#endif
