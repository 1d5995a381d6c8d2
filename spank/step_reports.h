/* step_reports.h: take the nodes' reports of tasks that ended, and judge a step by them. Without Slurm. */
#ifndef SPANK_STEP_REPORTS_H
#define SPANK_STEP_REPORTS_H

#include "spank/failure_report.h"

/* Of one step. The caller zeroes it, but for whom to tell of each report as it comes; NULL: nobody. */
struct step_reports {
    void (*on_end)(int rank, void *arg);
    void *arg;
    int size;                    /* of the step, as the first report says; 0: there was none */
    struct failure_report *kept; /* of the tasks that failed, and of those that left others */
    int count, room;
    unsigned char *succeeded; /* [size]: the task exited with 0 */
};

/* Take the reports that have come at the listening socket [fd]. They usually come before srun learns that
 * their tasks have ended; the others are waited for until [deadline_us], over all connections, so that a
 * silent one cannot delay the caller further. */
void step_reports_take(struct step_reports *reports, int fd, const char token[FAILURE_TOKEN_BYTES],
                       int64_t deadline_us);
void step_reports_free(struct step_reports *reports);

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
