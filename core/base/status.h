/* status.h: a status for the program and one sentence for the user.
 *
 * base/ promises the rest of hvd what needs no other folder: status and error text (this file), the log
 * (log.h), the codec of messages (codec.h), the opening of modules (module.h), names of element types and
 * backends, this process's place in the job (job.h), the shape of the control tree (tree_shape.h), and small
 * tools that all stages share: clocks, hashes, sets of CPUs, lists of ranks. Nothing here starts threads or
 * keeps the state of a job. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "hvd.h"

/* A sentence that says what is wrong, with which value, what was expected, and how to correct it. Longer ones
 * end in "...". */
struct hvd_error {
    char text[512];
};

/* Write the sentence into [err], unless that is NULL, and return [status], so that one statement reports and
 * returns. */
int error_set(struct hvd_error *err, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Append ": " and error_text(errno) to the sentence. Returns HVD_ERR_NO_MEMORY for ENOMEM, EMFILE and ENFILE,
 * otherwise HVD_ERR_SYSTEM. Leaves errno unchanged. */
int error_set_errno(struct hvd_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text of an errno, and which limit to raise if it is one of those of ulimit. For sentences that are no
 * struct hvd_error. */
const char *error_text(int error);

/* What a status means, in a few words. */
const char *status_text(int status);

#endif
