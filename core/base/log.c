/* log.c: lines for the person who runs the job, written through a sink that adds time and rank. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {[LOG_OFF] = "",
                                          [LOG_ERROR] = "error",
                                          [LOG_WARN] = "warning",
                                          [LOG_INFO] = "info",
                                          [LOG_DEBUG] = "debug"};

__attribute__((format(printf, 4, 0))) static void write_line(const struct hvd_log *log, enum log_level level,
                                                             const char *component, const char *format,
                                                             va_list args)
{
    char line[1000];
    int length = vsnprintf(line, sizeof(line), format, args);
    if (length >= (int)sizeof(line))
        memcpy(line + sizeof(line) - 4, "...", 4);
    log->sink(log->arg, level, component, line);
}

void log_write(const struct hvd_log *log, enum log_level level, const char *component, const char *format,
               ...)
{
    va_list args;
    va_start(args, format);
    if (log != NULL && level <= log->level)
        write_line(log, level, component, format, args);
    va_end(args);
}

void log_requested(const struct hvd_log *log, const char *component, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (log != NULL && log->level != LOG_OFF)
        write_line(log, LOG_INFO, component, format, args);
    va_end(args);
}

void log_to_stderr(void *arg, enum log_level level, const char *component, const char *line)
{
    const char *prefix = arg != NULL ? arg : "";
    struct timespec now;
    struct tm day;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &day);
    char text[1200];
    int length = snprintf(text, sizeof(text), "hvd %02d:%02d:%02d.%03ld %s%s%s: %s: %s\n", day.tm_hour,
                          day.tm_min, day.tm_sec, now.tv_nsec / 1000000, prefix, prefix[0] != 0 ? " " : "",
                          level_names[level], component, line);
    if (length >= (int)sizeof(text))
        length = (int)sizeof(text) - 1;
    ssize_t written = 0;
    do
        written = write(STDERR_FILENO, text, (size_t)length);
    while (written < 0 && errno == EINTR);
}
