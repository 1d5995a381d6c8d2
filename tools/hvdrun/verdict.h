/* verdict.h: who failed first, with what status hvdrun exits, and what its last line says. Pure. */
#ifndef TOOLS_HVDRUN_VERDICT_H
#define TOOLS_HVDRUN_VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* How far hvdrun had gone to end the ranks when one ended. */
enum verdict_stage { VERDICT_RUNNING, VERDICT_TERM_SENT, VERDICT_KILL_SENT };

struct verdict;

/* [host] is copied. NULL where memory ran out. */
struct verdict *verdict_create(int size, const char *host, int64_t grace_us);
void verdict_destroy(struct verdict *verdict);

/* What happened, in the order in which it did. */
void verdict_started(struct verdict *verdict, int rank, pid_t pid);
void verdict_connected(struct verdict *verdict, int rank);
void verdict_finalized(struct verdict *verdict, int rank);
/* [wait_status] as waitpid gives it. Ranks with the same [sweep] were found at one look: among them one that
 * a signal killed is taken to have failed before one that exited, which more often is a consequence. */
void verdict_ended(struct verdict *verdict, int rank, int wait_status, enum verdict_stage stage,
                   uint64_t sweep);
void verdict_aborted(struct verdict *verdict, int rank, int status, const char *text);
void verdict_not_started(struct verdict *verdict, int rank, const char *command, int error_number);
void verdict_interrupted(struct verdict *verdict, int signal_number);
/* hvdrun itself cannot go on, for the reason in [sentence]. */
void verdict_broken(struct verdict *verdict, const char *sentence);

/* True when the remaining ranks must be ended. */
bool verdict_is_failure(const struct verdict *verdict);
/* hvdrun's exit status. */
int verdict_exit_status(const struct verdict *verdict);
/* The last line, without "hvdrun: "; "" after success. Says what the other ranks did after. */
void verdict_sentence(const struct verdict *verdict, char *text, size_t text_bytes);

#endif
