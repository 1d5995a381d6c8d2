/* negotiation.h: the second stage. Requests go to the other ranks; what all ranks agreed on comes back, and
 * form makes batches of it.
 *
 * Owns the negotiation itself (negotiate/) and the settings in force. Sends to the control tree. Calls form
 * with what will run, finish with what is over or never will run, failure if a stalled operation ends the
 * job, trials at each decision. */
#ifndef FLOW_NEGOTIATION_H
#define FLOW_NEGOTIATION_H

#include "flow/batch/form.h"
#include "flow/stall_watch.h"
#include "negotiate/negotiate.h"

struct negotiation {
    struct control *control;
    struct set_registry *set_registry;
    struct failure *failure;
    struct trials *trials;
    struct batch_queue *batch_queue;
    const struct run *run;
    struct form *form;
    struct messages *messages;
    struct finish *finish;
    struct negotiate *negotiate;
    struct tuned_settings settings; /* in force for what is decided from here on. This rank decides only while
                                      fewer than settings.inflight batches are queued: a backlog makes larger
                                      batches, and a lone tensor does not wait */
    struct stall_watch stall_watch; /* of what was decided */
    int64_t stall_check_at_us;      /* when to look for stalls; INT64_MAX: nothing waits for other ranks */
    int64_t stall_check_set_us;     /* when that was found out */
    bool leaving;                   /* this rank has said that it leaves */
    bool all_left;                  /* all ranks have */
};

/* What the fields from control to finish borrow is set; the others are zeroed. */
int negotiation_init(struct negotiation *negotiation, const struct hvd_config *config,
                     const int backend_order[BACKEND_COUNT], struct hvd_error *err);

/* A zeroed one is fine. */
void negotiation_fini(struct negotiation *negotiation);

/* Submit a list of requests, linked by next. On failure those that remain are still in the tensor queue's
 * care, as undecided. */
int negotiation_submit(struct negotiation *negotiation, struct request *requests, struct hvd_error *err);

/* Say that this rank leaves. Once. */
int negotiation_leave(struct negotiation *negotiation, struct hvd_error *err);

/* A message of the parent or a child has arrived. */
int negotiation_receive(struct negotiation *negotiation, const struct control_event *event,
                        struct hvd_error *err);

/* Look for operations that wait too long, where it is time. [*movedp] becomes true where it was. */
int negotiation_check_stalls(struct negotiation *negotiation, bool *movedp, struct hvd_error *err);

/* Decide what this rank can decide, send what there is to say, and hand on decisions. [*movedp]
 * becomes true where anything was sent. */
int negotiation_advance(struct negotiation *negotiation, bool *movedp, struct hvd_error *err);

/* Hand on the decisions that this rank has heard of. */
int negotiation_take(struct negotiation *negotiation, struct hvd_error *err);

/* When negotiation_check_stalls has something to do: clock_us time, or INT64_MAX. To be called before each
 * sleep. */
int64_t negotiation_deadline(struct negotiation *negotiation);

#endif
