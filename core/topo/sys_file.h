/* sys_file.h: read the small files of /sys and /proc. */
#ifndef TOPO_SYS_FILE_H
#define TOPO_SYS_FILE_H

#include <stddef.h>

#define SYS_PATH_BYTES 512

/* The first line of a file that begins with [key] ("": the first line), without the key and the blanks after
 * it, into [text]; cut where it is too long. [text] is unchanged where there is no such line or the file
 * cannot be read. */
void sys_file_read_line(const char *path, const char *key, char *text, size_t text_bytes);

#endif
