/* exchange.h: bytes that pass from rank to rank through the memory of their node, and nothing more
 * is done with them: the least that any collective through shared memory can do. */
#ifndef TOOLS_HVDBENCH_EXCHANGE_H
#define TOOLS_HVDBENCH_EXCHANGE_H

#include "tools/hvdbench/job.h"

struct exchange_area;

/* Zero it first. */
struct exchange {
    struct exchange_area *own;      /* this rank writes there */
    struct exchange_area *previous; /* and reads what the one before it wrote, round the end */
};

/* Collective, of two ranks or more on one node. On failure the sentence says why there can be none, and
 * there is nothing to close. */
int exchange_open(struct exchange *exchange, struct bench *bench, struct hvd_error *err);
void exchange_close(struct exchange *exchange); /* fine on a zeroed one */

/* Collective: [bytes] from [from] go to the next rank, as many of the previous one's come to [to]. */
void exchange_run(const struct exchange *exchange, unsigned char *to, const unsigned char *from,
                  int64_t bytes);

#endif
