/* planner_reply.h: what the process that looks at a node answers: its bytes, and the checks of them. */
#ifndef SPANK_PLANNER_REPLY_H
#define SPANK_PLANNER_REPLY_H

#include "topo/plan/plan.h"

/* The head of the child's reply; the plan of each task follows. The parent checks every field of it. */
struct planner_reply {
    int status; /* HVD_OK; otherwise only [sentence] counts */
    char sentence[sizeof(((struct hvd_error *)0)->text)];
    int task_count;
    char note[PLAN_NOTE_BYTES];
    struct bitmap cpus, mems; /* granted to the step on this node */
    int visible_count;        /* GPUs that the plan regarded as visible */
    int gpu_count;            /* GPUs of the node */
    struct machine_gpu gpus[MACHINE_MAX_GPUS];
};

/* The child's reply, checked. */
struct planner_result {
    struct planner_reply head;
    struct plan_task *tasks; /* head.task_count of them */
};

/* Read the reply about [task_count] tasks from [fd] into [answer], which is zeroed, until [deadline_us]. The
 * user may have written it: HVD_ERR_SYSTEM if it is malformed, HVD_ERR_TIMEOUT, HVD_ERR_NO_MEMORY, or the
 * status and sentence of the child. The caller owns what [answer] holds, also after a failure. */
int planner_reply_read(int fd, int task_count, int64_t deadline_us, struct planner_result *answer,
                       struct hvd_error *err);

/* Free what [answer] holds. */
void planner_result_clear(struct planner_result *answer);

#endif
