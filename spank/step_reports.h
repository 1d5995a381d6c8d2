/* step_reports.h: take the nodes' reports of a step that begins and of tasks that ended, and judge the step
 * by them. Without Slurm. */
#ifndef SPANK_STEP_REPORTS_H
#define SPANK_STEP_REPORTS_H

#include "verdict/failure_report.h"

/* What a node has said about the start of the step there. */
enum node_state { NODE_SILENT, NODE_BEGUN, NODE_OTHER_VERSION /* it has begun, with another plug-in */ };

/* Of one step. The caller zeroes it, but for whom to tell of each end as it comes, NULL: nobody; and for
 * how many nodes it has, 0: it does not ask which ones begin. */
struct step_reports {
    void (*on_end)(const struct failure_report *report, void *arg);
    void *arg;
    int node_count;
    unsigned char *node_states; /* [node_count]: enum node_state; NULL: all are silent */
    int begun_count;
    int64_t begun_us;                         /* when it last began on a node */
    char first_address[FAILURE_ANSWER_BYTES]; /* of node 0, as a number; "": not known yet */
    char nodes[FAILURE_NODES_BYTES];          /* as Slurm lists them; "": not known */
    int size;                                 /* of the step, as the first report says; 0: there was none */
    struct failure_report *kept;              /* of the tasks that failed, and of those that left others */
    int count, room;
    unsigned char *succeeded; /* [size]: the task exited with 0 */
    int waiting;              /* nodes that wait in hvd_init */
    int waiting_rank;         /* a rank of the last of them */
    bool job_ended;           /* by Slurm, or the step, before a task was killed by SIGKILL */
    bool has_absent, blames_absent;
    struct failure_report absent; /* the first task that exited with 0 before hvd_init */
};

/* Take the reports that have come at the listening socket [fd], STEP_CONNECTIONS at a time. Those that are on
 * their way are waited for until [deadline_us], over all connections, so that a silent one cannot delay the
 * caller further. None is accepted in the second half of that time, so that all have as long to arrive: where
 * many come one after the other, the last would else be cut, and its sender could not tell. False if none was
 * a report of this step; otherwise more may wait. */
#define STEP_CONNECTIONS 64
bool step_reports_take(struct step_reports *reports, int fd, const char token[FAILURE_TOKEN_BYTES],
                       int64_t deadline_us);
void step_reports_free(struct step_reports *reports);

/* The task [rank] of [size] was lost with its node, which reports nothing. */
void step_reports_lose(struct step_reports *reports, int rank, int size);

/* Does a node wait in hvd_init while a task has ended that never called it? */
bool step_reports_wait_in_vain(const struct step_reports *reports);

/* It does, and so the step is ended: that task has failed first. */
void step_reports_blame_absent(struct step_reports *reports);

/* Write the names of the nodes in this state: "n[2,7-20]". Returns how many they are; 0 where nothing is
 * known of any. */
int step_reports_nodes(const struct step_reports *reports, enum node_state state, char *text,
                       size_t text_bytes);

/* How a step is judged. */
struct step_judge {
    bool (*went_on_without)(int rank,
                            const void *arg); /* an elastic step survived its loss; NULL: not elastic */
    const void *arg;
    void (*print)(const char *line);
};

/* Print the line that names the task that failed first. Returns the step's exit status, 0 if no report says
 * that it failed. */
int step_reports_judge(const struct step_reports *reports, const struct step_judge *judge);

#endif
