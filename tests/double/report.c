/* report.c: numbers that a test sets, complaints about the program, and what it did not give back. */
#include <config.h>

#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list arguments)
{
    char line[1000];
    const char *path = getenv("HVD_DOUBLE_REPORT");
    int used = snprintf(line, sizeof(line), "double of %s, process %d: ", double_library, (int)getpid());
    vsnprintf(line + used, sizeof(line) - (size_t)used, format, arguments);
    fprintf(stderr, "%s\n", line);
    FILE *file = path != NULL ? fopen(path, "ae") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

void double_report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

void double_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
    abort();
}

int double_number(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    char *end = NULL;
    if (text == NULL || text[0] == 0)
        return otherwise;
    long number = strtol(text, &end, 10);
    if (*end != 0 || number < 0 || number > 1000000000)
        double_complain("%s=%s: expected a number from 0 to 1000000000", variable, text);
    return (int)number;
}
