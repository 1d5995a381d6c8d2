/* inject.c: calls that fail because a test said so, and complaints about the program. */
#include "double.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

int double_number(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    char *end = NULL;
    if (text == NULL || text[0] == 0)
        return otherwise;
    long number = strtol(text, &end, 10);
    if (*end != 0 || number < 0 || number > 1000000000)
        double_complain("%s=%s: expected a number", variable, text);
    return (int)number;
}

__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list arguments)
{
    char line[1000];
    const char *path = getenv("HVD_DOUBLE_REPORT");
    int used = snprintf(line, sizeof(line), "double of libcuda, process %d: ", (int)getpid());
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

/* Does the call [name], such as cuMemAlloc_v2, count for an entry that says [length] bytes of [wanted]? */
static bool names(const char *name, const char *wanted, size_t length)
{
    return strncmp(name, wanted, length) == 0 && (name[length] == 0 || name[length] == '_');
}

/* Entries of HVD_DOUBLE_CUDA_FAIL are counted down in a table of their own, by place. */
static CUresult chosen_error(const char *name)
{
    static int calls[32];
    CUresult result = CUDA_SUCCESS;
    const char *at = getenv("HVD_DOUBLE_CUDA_FAIL");
    pthread_mutex_lock(&count_lock);
    for (int i = 0; i < 32 && at != NULL && at[0] != 0; i++) {
        size_t length = strcspn(at, ":,");
        int nth = 0;
        int code = 0;
        if (at[length] != ':' || sscanf(at + length, ":%d:%d", &nth, &code) != 2)
            double_complain("HVD_DOUBLE_CUDA_FAIL has %s: expected NAME:NTH:CODE", at);
        if (names(name, at, length) && ++calls[i] == nth)
            result = (CUresult)code;
        at += strcspn(at, ",");
        at += strspn(at, ",");
    }
    pthread_mutex_unlock(&count_lock);
    return result;
}

/* Calls that wait for the device, or may, or ask again and again whether it has done all. */
static bool waits(const char *name)
{
    static const char *const waiting[] = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize",
                                          "cuStreamQuery",       "cuMemAlloc",       "cuMemFree",
                                          "cuMemHostAlloc",      "cuMemFreeHost",    "cuMemHostRegister"};
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        if (names(name, waiting[i], strlen(waiting[i])))
            return true;
    return false;
}

static _Atomic int wait_count;

int cuDoubleWaits(void)
{
    return wait_count;
}

CUresult double_call(const char *name)
{
    wait_count += waits(name);
    CUresult result = chosen_error(name);
    if (result == CUDA_SUCCESS && !double_started())
        return CUDA_ERROR_NOT_INITIALIZED;
    return result;
}

CUresult double_work_error(void)
{
    return chosen_error("work");
}
