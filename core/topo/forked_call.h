/* forked_call.h: calls a function in a forked child, because it may crash or never return, as libraries do
 * with damaged data. */
#ifndef TOPO_FORKED_CALL_H
#define TOPO_FORKED_CALL_H

#include <stdint.h>

/* Call work([arg]) in a forked child, discard its output, and kill the child at [deadline_us]. Returns 1 if
 * the function returned, 0 if it crashed or ran out of time, and -1 with errno if fork(2) failed. */
int forked_call_run(void (*work)(void *arg), void *arg, int64_t deadline_us);

#endif
