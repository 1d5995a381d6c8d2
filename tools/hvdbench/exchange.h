/* exchange.h: copy bytes between the ranks of a node through shared memory, and do nothing else with them.
 * That is the minimum that any collective through shared memory must do. */
#ifndef TOOLS_HVDBENCH_EXCHANGE_H
#define TOOLS_HVDBENCH_EXCHANGE_H

#include "tools/hvdbench/job.h"

struct exchange_area;

/* Zero it first. */
struct exchange {
    struct exchange_area *own;      /* written by this rank */
    struct exchange_area *previous; /* written by the previous rank; rank 0 reads the last rank's */
};

/* Collective, for two or more ranks on one node. On failure [err] has the reason, and nothing needs to be
 * closed. */
int exchange_open(struct exchange *exchange, struct bench *bench, struct hvd_error *err);
void exchange_close(struct exchange *exchange); /* does nothing on a zeroed struct */

/* Collective: send [bytes] at [from] to the next rank, and receive as many from the previous rank into [to].
 */
void exchange_run(const struct exchange *exchange, unsigned char *to, const unsigned char *from,
                  int64_t bytes);

#endif
