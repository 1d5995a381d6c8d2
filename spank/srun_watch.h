/* srun_watch.h: in srun: take the nodes' reports while the step runs, and act on them. */
#ifndef SPANK_SRUN_WATCH_H
#define SPANK_SRUN_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/srun_controller.h"
#include "spank/step_reports.h"

/* The step of this srun. */
struct watched_step {
    struct controlled_step id;
    int node_count;     /* 0: not known */
    bool ends;          /* a task that fails before it has called hvd_init ends the step */
    int64_t explain_us; /* from the end of a rank that had lost another one to the sentence why srun waits */
};

/* Listen for the nodes' reports, and tell the nodes where. The kernel takes them until srun_watch_begin. */
void srun_watch_listen(void);

/* The socket where the reports come; -1: srun does not listen. */
int srun_watch_fd(void);

/* Start a thread that takes the reports. Where there can be none, they are taken at the end. */
void srun_watch_begin(const struct watched_step *step);

/* When the step has ended: end the thread, and take what is still on its way. The reports are valid until
 * srun_watch_free; NULL: srun does not listen. */
const struct step_reports *srun_watch_end(void);
void srun_watch_free(void);

#endif
