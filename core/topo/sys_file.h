/* sys_file.h: read the small files of /sys and /proc. */
#ifndef TOPO_SYS_FILE_H
#define TOPO_SYS_FILE_H

#include <stddef.h>

#define SYS_PATH_BYTES 512

/* Read the first line that begins with [key] ("": the first line), without the key and the blanks after it,
 * into [text]; cut if it is too long. [text] is unchanged if there is no such line or the file cannot be
 * read. */
void sys_file_read_line(const char *path, const char *key, char *text, size_t text_bytes);

#endif
