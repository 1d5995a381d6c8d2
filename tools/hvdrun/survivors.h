/* survivors.h: an elastic job goes on without ranks that failed, as long as enough are left, and starts them
 * again. */
#ifndef TOOLS_HVDRUN_SURVIVORS_H
#define TOOLS_HVDRUN_SURVIVORS_H

#include "pmix_shim/epoch_server.h"
#include "verdict/verdict.h"

#define SURVIVORS_NEVER INT64_MAX

/* What the user wants of an elastic job. */
struct survivors_wish {
    int fewest;       /* ranks; 0: the job is not elastic */
    int max_restarts; /* of each rank */
};

struct slot_restarts;

/* Of one job. The caller zeroes it. */
struct survivors {
    struct survivors_wish wish;
    int size;                    /* ranks at the start */
    struct epoch_server *server; /* gives the ranks their places; NULL: the job is not elastic */
    struct slot_restarts *slots; /* by rank at the start */
    int finished;                /* ranks that have done their work: no other one is started again */
    struct hvd_log log;
};

/* Begin for a job of [size] ranks that have [environment]. Does nothing if the job is not elastic. */
int survivors_open(struct survivors *survivors, int size, const struct survivors_wish *wish,
                   char *const *environment, struct hvd_error *err);
void survivors_close(struct survivors *survivors);

/* [rank] has ended: enter that into [verdict]. If the job goes on although the rank failed, a line says so,
 * and when the rank will be started again. */
void survivors_enter(struct survivors *survivors, int rank, const struct verdict_end *end,
                     struct verdict *verdict);

/* When a rank must be started again, SURVIVORS_NEVER if none; the rank that must be now, -1 if none; and how
 * often [rank] has been so far, with the start that is due. */
int64_t survivors_start_us(const struct survivors *survivors);
int survivors_take_start(struct survivors *survivors);
int survivors_restarts_of(const struct survivors *survivors, int rank);

/* Is nobody left but ranks that were started again, and that nobody needs any more? */
bool survivors_are_done(const struct survivors *survivors);

#endif
