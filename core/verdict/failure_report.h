/* failure_report.h: what a node tells srun: that the step begins there, that its tasks wait in hvd_init, and
 * of tasks that have failed. One report is one connection: the sender connects, sends, and closes; only a
 * question is answered. */
#ifndef VERDICT_FAILURE_REPORT_H
#define VERDICT_FAILURE_REPORT_H

#include <netinet/in.h>

#include "base/secret.h"
#include "verdict/rank_traces.h"

/* How srun tells the nodes where it listens, "PORT:TOKEN": Slurm hands variables with this prefix on even if
 * the user wants none (--export=NONE). The plug-in takes it away from the tasks, so a task that has it is on
 * a node without the plug-in. */
#define FAILURE_REPORT_VARIABLE "SLURM_HVD_REPORT"

/* The same for the tasks of a step that is not elastic, from the plug-in. */
#define FAILURE_TASK_VARIABLE "HVD_STEP_REPORT"

/* Proof that a report is of this step, not a secret of the job: it guards what srun prints, and nothing else.
 * A keyed handshake needs libsodium, which must not come into slurmstepd. */
#define FAILURE_TOKEN_BYTES RANDOM_HEX_BYTES

#define FAILURE_VARIABLE_BYTES (8 + FAILURE_TOKEN_BYTES)
#define FAILURE_REPORT_BYTES   4096      /* of the longest message */
#define FAILURE_MAX_SIZE       (1 << 20) /* ranks of a step */
#define FAILURE_NODE_BYTES     65
#define FAILURE_NODES_BYTES    1024

/* A report of the first kind has all of it; the others, of which no task has ended, only what is said here.
 * srun, the nodes and the tasks may have hvd of different versions. All begin alike, up to how the task
 * ended, so that each knows of the other which node has begun, which rank has ended, and with which status.
 */
enum failure_kind {
    FAILURE_ENDED,
    FAILURE_BEGINS, /* [node_index], [nodes] */
    FAILURE_WAITS,  /* [rank], [size]: it waits in hvd_init for others, and speaks for its node */
    FAILURE_WAITED, /* the same: it has left hvd_init */
    FAILURE_ASKS,   /* nothing: at which address is node 0 of the step? */
    FAILURE_KINDS
};

struct failure_report {
    enum failure_kind kind;
    int node_index;                  /* in the step */
    char nodes[FAILURE_NODES_BYTES]; /* of the step, as Slurm lists them; "": the list is too long */
    int rank, size;                  /* of the step */
    int pid;
    char node[FAILURE_NODE_BYTES];
    int64_t after_us;   /* from the start of the step on its node */
    int failed_count;   /* tasks of the node that have failed and that no earlier report has counted */
    bool other_version; /* only what is above, and [end] up to whether it was told, is known */
    struct verdict_end end;
    struct verdict_facts facts;
    char crash[CRASH_TEXT_BYTES];
    bool follows;     /* another task of its node has failed before it */
    bool node_killed; /* the first one that failed there was killed together with all others there */
};

/* Returns the length of the message, or 0 if it does not fit. */
size_t failure_report_encode(const struct failure_report *report, const char token[FAILURE_TOKEN_BYTES],
                             unsigned char message[FAILURE_REPORT_BYTES]);

/* False where the message is none of this step, or breaks a bound; *report is then undefined. */
bool failure_report_decode(const unsigned char *message, size_t length, const char token[FAILURE_TOKEN_BYTES],
                           struct failure_report *report);

/* srun answers a question by the address from which node 0 has told it that the step begins there, as a
 * number without a final 0, or by FAILURE_LATER before that. It closes without an answer where it does not
 * look for node 0, or has an older plug-in, to which the question is no report. */
#define FAILURE_ANSWER_BYTES INET6_ADDRSTRLEN
#define FAILURE_LATER        "later"

/* Connect to srun at [host], an address as a number. Returns a socket, or -1 with the sentence why. */
int failure_report_connect(const char *host, int port, int64_t deadline_us, struct hvd_error *err);

/* Send a report there. Returns whether srun has it, after FAILURE_SEND_US at most; if not, the sentence says
 * why. */
#define FAILURE_SEND_US INT64_C(1500000)
bool failure_report_send(const char *host, int port, const char token[FAILURE_TOKEN_BYTES],
                         const struct failure_report *report, struct hvd_error *err);

/* The same, and the connection stays open for the answer. Returns its socket, or -1. */
int failure_report_deliver(const char *host, int port, const char token[FAILURE_TOKEN_BYTES],
                           const struct failure_report *report, struct hvd_error *err);

/* Read the variable. False where it says something else. */
bool failure_report_parse_variable(const char *text, int *portp, char token[FAILURE_TOKEN_BYTES]);

/* Write the short name of this node into [node]. Returns [node]. */
const char *failure_report_name_node(char node[FAILURE_NODE_BYTES]);

#endif
