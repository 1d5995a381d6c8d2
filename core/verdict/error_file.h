/* error_file.h: the file in which a Python program says what exception ended it, as torchrun's workers do. */
#ifndef VERDICT_ERROR_FILE_H
#define VERDICT_ERROR_FILE_H

#include <stddef.h>

#define ERROR_FILE_VARIABLE "TORCHELASTIC_ERROR_FILE"

/* [text] becomes "ValueError: no more data (train.py:31)"; "" where the file says something else, or nothing.
 * [fd] is of a file that was opened for reading; its position is neither used nor changed. */
void error_file_read(int fd, char *text, size_t text_bytes);

/* Likewise, of the file [path], which may not exist. */
void error_file_read_path(const char *path, char *text, size_t text_bytes);

/* Likewise, of an exception's message, of which the first line counts, and the frames of its traceback; "":
 * none. */
void error_file_compose(const char *message, const char *traceback, char *text, size_t text_bytes);

/* For tests: likewise, of the [length] bytes of such a file. */
void error_file_parse(const char *bytes, size_t length, char *text, size_t text_bytes);

#endif
