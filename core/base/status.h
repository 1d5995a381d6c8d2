/* status.h: a status for the program and one sentence for the human. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "hvd.h"

/* A sentence: what, which value, what was expected, how to mend it. Longer ones end in "...". */
struct hvd_error {
    char text[512];
};

/* Write the sentence into [err] (NULL: nowhere) and return [status], so that reporting and
 * returning is one statement. */
int error_set(struct hvd_error *err, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, ended by ": " and what errno says. HVD_ERR_NO_MEMORY for ENOMEM, EMFILE and ENFILE, otherwise
 * HVD_ERR_SYSTEM. errno is kept. */
int error_set_errno(struct hvd_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a status means, in a few words. */
const char *status_text(int status);

#endif
