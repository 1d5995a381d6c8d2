/* start_notice.h: tells srun that this node waits in hvd_init for other ranks, if it does so for long: srun
 * knows which ranks have ended before they called it, and whoever waits for those waits in vain. */
#ifndef API_START_NOTICE_H
#define API_START_NOTICE_H

#include <pthread.h>
#include <stdbool.h>

#include "verdict/failure_report.h"

/* Between the two calls below, which the caller makes around a start. */
struct start_notice {
    const char *listener; /* NULL: srun does not listen */
    struct failure_report report;
    int hold[2]; /* the thread ends when the second is closed; -1: there is no thread */
    int claim;   /* the node's name, which one rank of it holds; -1: not this one */
    bool told;
    pthread_t thread;
};

void start_notice_begin(struct start_notice *notice);
void start_notice_end(struct start_notice *notice);

#endif
