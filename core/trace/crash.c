/* crash.c: names the function in which a fatal signal came, and those that called it. */
#include "config.h"

#include "trace/crash.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#define MOST_FRAMES  48 /* walked through, those of the signal handler included */
#define SHOWN_FRAMES 6

void crash_prepare(void)
{
    void *frame = NULL;
    backtrace(&frame, 1); /* the first call loads a library */
}

static bool is_sent(const siginfo_t *info)
{
    return info->si_code == SI_USER || info->si_code == SI_QUEUE;
}

/* Of a fault, si_addr is what was accessed, or the instruction. */
static bool has_address(const siginfo_t *info)
{
    return info->si_code > 0 && info->si_signo != SIGABRT;
}

void crash_add_signal(struct strbuf *strbuf, const char *name, const siginfo_t *info)
{
    strbuf_add_text(strbuf, name);
    if (is_sent(info)) {
        strbuf_add_text(strbuf, ", sent by process ");
        strbuf_add_number(strbuf, info->si_pid);
    } else if (has_address(info)) {
        strbuf_add_text(strbuf, " at address ");
        strbuf_add_hex(strbuf, (uintptr_t)info->si_addr);
    }
}

/* The instruction at which the signal came; 0 on processors where we do not know how to find it. */
static uintptr_t interrupted_at(const void *context)
{
    const ucontext_t *ucontext = context;
#if defined __x86_64__
    return (uintptr_t)ucontext->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return (uintptr_t)ucontext->uc_mcontext.pc;
#else
    (void)ucontext;
    return 0;
#endif
}

static void add_function(struct strbuf *strbuf, uintptr_t at)
{
    Dl_info where = {.dli_fname = NULL};
    if (dladdr((void *)at, &where) == 0 || where.dli_fname == NULL) {
        strbuf_add_hex(strbuf, at);
        return;
    }
    const char *slash = strrchr(where.dli_fname, '/');
    const char *file = slash != NULL ? slash + 1 : where.dli_fname;
    bool named = where.dli_sname != NULL;
    strbuf_add_text(strbuf, named ? where.dli_sname : file);
    strbuf_add_text(strbuf, "+");
    strbuf_add_hex(strbuf, at - (uintptr_t)(named ? where.dli_saddr : where.dli_fbase));
    if (!named)
        return;
    strbuf_add_text(strbuf, " (");
    strbuf_add_text(strbuf, file);
    strbuf_add_text(strbuf, ")");
}

/* The frames above that of the interrupted function are the signal handler's. */
static int find_interrupted(void *const *frames, int count, uintptr_t at)
{
    for (int i = 0; i < count; i++) {
        if ((uintptr_t)frames[i] == at)
            return i;
    }
    return -1;
}

void crash_add_frames(struct strbuf *strbuf, const void *context)
{
    void *frames[MOST_FRAMES];
    uintptr_t at = interrupted_at(context);
    if (at == 0)
        return;
    strbuf_add_text(strbuf, " in ");
    add_function(strbuf, at);
    int count = backtrace(frames, MOST_FRAMES);
    int first = find_interrupted(frames, count, at);
    for (int i = first + 1; first >= 0 && i < count && i < first + SHOWN_FRAMES; i++) {
        strbuf_add_text(strbuf, i == first + 1 ? ", called from " : ", ");
        add_function(strbuf, (uintptr_t)frames[i] - 1); /* the call, not what comes after it */
    }
}
