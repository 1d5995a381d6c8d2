/* stack.h: run code on a stack that is large enough whatever `ulimit -s` says. */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include <pthread.h>

/* As pthread_create, without attributes: start a thread whose stack suffices, and in which all signals are
 * blocked. */
int stack_create_thread(pthread_t *thread, void *(*function)(void *argument), void *argument);

/* Call [function] with [argument], and return what it returns. Where the limit of the stack is lower than
 * what hvd's programs and libpmix need, it runs in a thread of its own, whose stack the limit does not reach;
 * the calling thread only waits then, with all signals blocked. Call it in a process with one thread. */
int stack_call(int (*function)(void *argument), void *argument);

/* Give threads that this process starts from now on a stack that is large enough. Returns the size that they
 * had before, or 0 if that was large enough. */
size_t stack_raise_thread_default(void);

/* Undo it: [before] is what it returned. */
void stack_restore_thread_default(size_t before);

#endif
