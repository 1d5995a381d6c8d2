/* error_file_none.c: without jansson no JSON is read. */
#include "tools/hvdrun/error_file.h"

void error_file_read(const char *path, char *text, size_t text_bytes)
{
    (void)path, (void)text_bytes;
    text[0] = 0;
}
