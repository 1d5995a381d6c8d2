/* stall_inspector.h: tells the user which ranks an operation has waited too long for. Runs on the rank that
 * decides the operation; negotiate/stall_query.c has found the missing ranks for it. Owns nothing, and calls
 * only the failure stage, where stall-abort ends the job. */
#ifndef FLOW_STALL_INSPECTOR_H
#define FLOW_STALL_INSPECTOR_H

#include "flow/failure.h"
#include "negotiate/negotiate.h"
#include "p2p/p2p.h"

#define STALL_TEXT_BYTES 900

/* Write a warning to the log about a DECISION_STALLED, or end the job where it says must_abort. */
void stall_inspector_report(struct failure *failure, const struct decision *decision);

/* The same for a batch of which this rank alone knows that it does not move. */
void stall_inspector_report_own(struct failure *failure, const struct stalled_batch *stalled_batch,
                                bool must_abort);

/* The same for message [index] of [desc], of which this rank alone knows that it waits. */
void stall_inspector_report_message(struct failure *failure, const struct desc *desc, int index,
                                    const struct p2p_stalled *stalled);

/* For tests: `in allreduce "w" for 60.0 s, waits for 2 ranks: rank 5 (n2) last submitted allreduce "v"; ...`,
 * or `in allreduce "w", which has not moved for 60.0 s: rank 5 (n2) does not answer` into [text]. A text that
 * does not fit ends in "..."; [text_bytes] is at least 4. */
void stall_inspector_format(const struct peer_table *peer_table, const struct decision *decision, char *text,
                            size_t text_bytes);

#endif
