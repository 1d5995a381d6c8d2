/* config_file.h: read a file of options: a YAML mapping of names to values. */
#ifndef OPTIONS_CONFIG_FILE_H
#define OPTIONS_CONFIG_FILE_H

#include "base/status.h"

#define CONFIG_FILE_BYTES 65536 /* the longest file */

/* Call [on_entry] with each name and value of the file [path], in the file's order, until it fails. Returns
 * what [on_entry] returned, or HVD_ERR_INVALID if the file cannot be read, is no regular file, is too long,
 * is not YAML, or is anything but one flat mapping. An empty file has no entries. [on_entry] must detect
 * duplicate names. */
int config_file_read(const char *path,
                     int (*on_entry)(void *arg, const char *name, const char *value, struct hvd_error *err),
                     void *arg, struct hvd_error *err);

#endif
