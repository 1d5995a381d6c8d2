/* log.h: lines for the person who runs the job, written through a sink that adds time and rank. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Where lines go. Any thread of hvd may call the sink, with whole lines that have no newline. */
struct hvd_log {
    enum log_level level;
    void (*sink)(void *arg, enum log_level level, const char *component, const char *line);
    void *arg;
};

/* Write one line, unless [log] is NULL or its level excludes the line. Lines longer than 1000 bytes end in
 * "...". */
void log_write(const struct hvd_log *log, enum log_level level, const char *component, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

/* Write a line that the user has asked for, at any level but LOG_OFF. */
void log_requested(const struct hvd_log *log, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The usual sink: writes "hvd TIME PREFIX LEVEL: component: line" to stderr in one write. [arg] is the
 * prefix, such as "rank 3 (n2)", or NULL. */
void log_to_stderr(void *arg, enum log_level level, const char *component, const char *line);

#endif
