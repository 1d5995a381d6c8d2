/* verdict.h: which rank failed first, hvdrun's exit status, and its last message. Does no I/O. */
#ifndef TOOLS_HVDRUN_VERDICT_H
#define TOOLS_HVDRUN_VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* What hvdrun had done to end the job when a rank ended. */
enum verdict_stage { VERDICT_RUNNING, VERDICT_TERM_SENT, VERDICT_KILL_SENT };

struct verdict;

/* [host] is copied. Returns NULL if memory ran out. */
struct verdict *verdict_create(int size, const char *host, int64_t grace_us);
void verdict_destroy(struct verdict *verdict);

/* Record events, in the order in which they happened. */
void verdict_started(struct verdict *verdict, int rank, pid_t pid);
void verdict_connected(struct verdict *verdict, int rank);
void verdict_finalized(struct verdict *verdict, int rank);
/* How many ranks have joined and ended without having left. */
int verdict_deserter_count(const struct verdict *verdict);
/* [wait_status] is that of waitpid. Ranks that were reaped in one pass have the same [sweep]. Among them, a
 * rank that was killed by a signal is blamed before one that exited, because an exit is more often the
 * consequence. */
void verdict_ended(struct verdict *verdict, int rank, int wait_status, enum verdict_stage stage,
                   uint64_t sweep);
void verdict_aborted(struct verdict *verdict, int rank, int status, const char *text);
void verdict_not_started(struct verdict *verdict, int rank, const char *command, int error_number);
void verdict_interrupted(struct verdict *verdict, int signal_number);
/* hvdrun itself cannot go on, for the reason in [sentence]. */
void verdict_broken(struct verdict *verdict, const char *sentence);
/* hvdrun has killed every rank that was still running, without asking it to end first. */
void verdict_rest_ended(struct verdict *verdict);

/* Whether something failed, so that the remaining ranks must be ended. */
bool verdict_is_failure(const struct verdict *verdict);
/* Has the job failed in a way that another attempt may not: not by a signal to hvdrun, nor because its
 * program cannot be started? */
bool verdict_may_restart(const struct verdict *verdict);
/* hvdrun's exit status. */
int verdict_exit_status(const struct verdict *verdict);
/* The last message, without "hvdrun: ", with what became of the other ranks; "" after success. */
void verdict_sentence(const struct verdict *verdict, char *text, size_t text_bytes);

#endif
