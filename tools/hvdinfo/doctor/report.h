/* report.h: what hvdinfo doctor prints: a line, or an object of JSON, for each different answer to a check.
 */
#ifndef TOOLS_HVDINFO_DOCTOR_REPORT_H
#define TOOLS_HVDINFO_DOCTOR_REPORT_H

#include <stdbool.h>

#include "tools/hvdinfo/doctor/doctor.h"

/* A finding of a rank. */
struct answer {
    int32_t check; /* its place in node_checks, and after these in job_checks */
    int32_t rank;  /* -1: of all ranks together */
    char host[64];
    struct finding finding;
};

enum report_form {
    REPORT_LINES,
    REPORT_ONE_OF_MANY, /* lines that begin with the host, as other processes print theirs beside them */
    REPORT_JSON
};

/* Print [count] answers, and sort them for that: one line where several ranks answer the same, with their
 * hosts unless it is all of them. Returns whether none failed. */
bool report_answers(struct answer *answers, int count, enum report_form form);

#endif
