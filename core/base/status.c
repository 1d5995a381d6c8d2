/* status.c: a status for the program and one sentence for the user. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void __attribute__((format(printf, 2, 0)))
write_sentence(struct hvd_error *err, const char *format, va_list args)
{
    int length = vsnprintf(err->text, sizeof(err->text), format, args);
    if (length >= (int)sizeof(err->text))
        memcpy(err->text + sizeof(err->text) - 4, "...", 4);
}

int error_set(struct hvd_error *err, int status, const char *format, ...)
{
    if (err == NULL)
        return status;
    va_list args;
    va_start(args, format);
    write_sentence(err, format, args);
    va_end(args);
    return status;
}

int error_set_errno(struct hvd_error *err, const char *format, ...)
{
    int saved_errno = errno;
    bool exhausted = saved_errno == ENOMEM || saved_errno == EMFILE || saved_errno == ENFILE;
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        write_sentence(err, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof(err->text) - used, ": %s", error_text(saved_errno));
    }
    errno = saved_errno;
    return exhausted ? HVD_ERR_NO_MEMORY : HVD_ERR_SYSTEM;
}

const char *error_text(int error)
{
    if (error == EMFILE)
        return "Too many open files; raise `ulimit -n`, the hard limit too";
    if (error == EFBIG)
        return "File too large; raise `ulimit -f`";
    return strerror(error);
}

const char *status_text(int status)
{
    switch (status) {
    case HVD_OK:
        return "done";
    case HVD_IN_PROGRESS:
        return "in progress";
    case HVD_NEW_RANKS:
        return "ranks wait to join the job";
    case HVD_ERR_INVALID:
        return "invalid argument, option or environment";
    case HVD_ERR_STATE:
        return "not possible in this state";
    case HVD_ERR_DUPLICATE:
        return "an operation of that name is in flight, or what is to be made is there already";
    case HVD_ERR_MISMATCH:
        return "the ranks disagree";
    case HVD_ERR_UNSUPPORTED:
        return "no common backend can carry this";
    case HVD_ERR_NO_MEMORY:
        return "out of memory or descriptors";
    case HVD_ERR_TIMEOUT:
        return "a rank did not arrive in time";
    case HVD_ERR_RANK_LOST:
        return "a rank was lost";
    case HVD_ERR_SHUTDOWN:
        return "a rank has shut down";
    case HVD_ERR_SYSTEM:
        return "a system call or a library failed";
    case HVD_ERR_SET:
        return "no such process set, or no member of it";
    default:
        return "unknown status";
    }
}
