/* failure_child.h: the children of slurmstepd that speak with srun, as the user. They tell it that the step
 * begins here, and what a failed task has left behind; and they ask it where node 0 is. */
#ifndef SPANK_FAILURE_CHILD_H
#define SPANK_FAILURE_CHILD_H

#include "verdict/failure_report.h"
#include "spank/user_child.h"

/* The child's exit status. */
enum failure_told {
    FAILURE_TOLD,      /* and answered, if it was asked */
    FAILURE_HELD_BACK, /* the task failed because another rank was lost, and [always] is not set */
    FAILURE_NOT_TOLD   /* srun cannot be reached */
};

/* The work of the child. The descriptors that it keeps are those of the task's traces that are there, the
 * flight record first. */
struct failure_task {
    struct failure_report report; /* the child fills in what the traces say */
    bool has_flight, has_error;
    bool always;
    const char *host; /* srun's address, as a number */
    int port;
    char token[FAILURE_TOKEN_BYTES];
    char *answer; /* [FAILURE_ANSWER_BYTES], shared with slurmstepd: what srun says to a question */
};
user_child_f failure_child_main;

/* The same for a report that begins: nothing is looked at. The descriptor that it keeps is the user's
 * terminal, which it tells if srun cannot be reached: slurmstepd waits for the tasks then. */
user_child_f failure_child_begin;

/* The same for a question: it is asked again while node 0 has not told srun that the step begins there, until
 * FAILURE_ASK_US: by then srun says so itself. The answer ends with a 0, and is not checked. */
#define FAILURE_ASK_US INT64_C(2000000)
user_child_f failure_child_ask;

#endif
