/* error_file.h: the file in which a Python program says what exception ended it, as torchrun's workers do. */
#ifndef TOOLS_HVDRUN_ERROR_FILE_H
#define TOOLS_HVDRUN_ERROR_FILE_H

#include <stddef.h>

#define ERROR_FILE_VARIABLE "TORCHELASTIC_ERROR_FILE"

/* [text] becomes "ValueError: no more data (train.py:31)"; "" where there is no such file, or it says
 * something else, or hvdrun was built without jansson. */
void error_file_read(const char *path, char *text, size_t text_bytes);

#endif
