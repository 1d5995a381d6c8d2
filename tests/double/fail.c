/* fail.c: calls of a double that fail because a test said so. */
#include <config.h>

#include "fail.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define ENTRIES_MAX 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int spared;

/* The call that a program has chosen. */
static struct {
    char name[80];
    int nth, code, calls;
} chosen;

/* Does the call [name], such as cuMemAlloc_v2, count for an entry that says [length] bytes of [wanted]? */
static bool names(const char *name, const char *wanted, size_t length)
{
    return strncmp(name, wanted, length) == 0 && (name[length] == 0 || name[length] == '_');
}

bool double_is_call(const char *name, const char *wanted)
{
    return names(name, wanted, strlen(wanted));
}

/* Entries of the variable are counted down in a table of their own, by place. */
static int error_of_variable_locked(const char *name)
{
    static int calls[ENTRIES_MAX];
    const char *at = getenv(double_fail_variable);
    int result = 0;
    for (int i = 0; i < ENTRIES_MAX && at != NULL && at[0] != 0; i++) {
        size_t length = strcspn(at, ":,");
        int nth = 0;
        int code = double_fail_code;
        if (at[length] != ':' || sscanf(at + length, ":%d:%d", &nth, &code) < 1)
            double_complain("%s has %s: expected NAME:NTH or NAME:NTH:CODE", double_fail_variable, at);
        if (names(name, at, length) && ++calls[i] == nth)
            result = code;
        at += strcspn(at, ",");
        at += strspn(at, ",");
    }
    return result;
}

int double_chosen_error(const char *name)
{
    if (spared > 0)
        return 0;
    pthread_mutex_lock(&lock);
    int result = error_of_variable_locked(name);
    if (chosen.nth > 0 && double_is_call(name, chosen.name) && ++chosen.calls == chosen.nth)
        result = chosen.code;
    pthread_mutex_unlock(&lock);
    return result;
}

bool double_choose(const char *name, int nth, int code)
{
    pthread_mutex_lock(&lock);
    bool came = chosen.nth > 0 && chosen.calls >= chosen.nth;
    snprintf(chosen.name, sizeof(chosen.name), "%s", name);
    chosen.nth = nth;
    chosen.code = code;
    chosen.calls = 0;
    pthread_mutex_unlock(&lock);
    return came;
}

void double_spare(bool spare)
{
    spared += spare ? 1 : -1;
}
