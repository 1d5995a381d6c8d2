/* eager_sum.h: small allreduces, whose inputs travel with the agreement of the ranks. They need no batch and
 * no backend: a rank that hears of the decision has what it takes. The result has the same bits as that of
 * any backend. */
#ifndef FLOW_BATCH_EAGER_SUM_H
#define FLOW_BATCH_EAGER_SUM_H

#include "backend/backends.h"
#include "flow/finish.h"
#include "negotiate/negotiate.h"

/* How many bytes of input travel with the readiness for [request] in a set of [members]; 0: none. */
int eager_sum_bytes(const struct request *request, int members);

/* All members' inputs are in the decision: reduce them, and end the request. */
int eager_sum_run(struct finish *finish, const struct team *members, const struct decision *decision,
                  struct hvd_error *err);

#endif
