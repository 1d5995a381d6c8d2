/* local_starter.h: starts ranks on this machine, by the reaper: each in its place, with its variables, and
 * with files for its traces. */
#ifndef TOOLS_HVDRUN_LOCAL_STARTER_H
#define TOOLS_HVDRUN_LOCAL_STARTER_H

#include "base/launch_variables.h"
#include "pmix_shim/server.h"
#include "tools/hvdrun/post_mortem.h"
#include "tools/hvdrun/rank_places.h"
#include "tools/hvdrun/starter.h"

/* The parts that it works with; the caller owns them. */
struct local_starter {
    const struct reaper_plan *plan;
    struct reaper *reaper;
    const struct rank_places *places;
    const struct post_mortem *post_mortem;
    const char *host; /* the name of this machine */
    /* Open the standard descriptors of a rank: [0] may stay -1, as reaper_rank says. */
    int (*open_stdio)(void *arg, const struct starter_rank *rank, int fds[3], struct hvd_error *err);
    void *arg;
    struct server *server;   /* NULL: the ranks have no PMIx */
    const char *epochs_host; /* where the ranks ask for their place in the next epoch */
    uint16_t epochs_port;    /* 0: the job is not elastic */
};

extern const struct starter_ops local_starter_ops;

/* Start a rank at [place], which says where it is among the ranks of this machine. */
int local_starter_start(struct local_starter *starter, const struct starter_rank *rank,
                        const struct launch_place *place, struct hvd_error *err);

/* As [explain] of starter_ops, of a rank at [place]. */
void local_starter_explain(const struct local_starter *starter, int rank, int place, int wait_status,
                           struct verdict_facts *facts, char crash[CRASH_TEXT_BYTES]);

#endif
