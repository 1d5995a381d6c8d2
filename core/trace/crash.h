/* crash.h: says in one line which fatal signal came, and in which function. For signal handlers. */
#ifndef TRACE_CRASH_H
#define TRACE_CRASH_H

#include <signal.h>

#include "trace/strbuf.h"

/* Load what the calls below need, so that they do not allocate. Call it before a signal comes. */
void crash_prepare(void);

/* `SIGSEGV at address 0x10`, or `SIGABRT`, or `SIGSEGV, sent by process 4711`. */
void crash_add_signal(struct strbuf *strbuf, const char *name, const siginfo_t *info);

/* ` in step+0x1f (libtrain.so), called from train+0x2a1c`: the function of the signal handler's [context],
 * and its callers. A function that is not exported is told by its place in its file, which addr2line -fe FILE
 * understands.
 */
void crash_add_frames(struct strbuf *strbuf, const void *context);

#endif
