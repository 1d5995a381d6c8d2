/* rank_traces.h: what the traces of a rank that has ended say: its flight record, and the system's word on
 * memory and cores. */
#ifndef VERDICT_RANK_TRACES_H
#define VERDICT_RANK_TRACES_H

#include "trace/flight.h"
#include "verdict/memory_events.h"
#include "verdict/verdict.h"

#define CRASH_TEXT_BYTES (FLIGHT_CRASH_BYTES + 1)

/* How the rank left hvd's job, and what it waited for. [flight] may be NULL: it left no record. */
void rank_traces_of_end(struct flight *flight, struct verdict_end *end);

/* What the rank was doing, and where a fatal signal came, or "". [flight] may be NULL. */
void rank_traces_of_flight(struct flight *flight, struct verdict_facts *facts, char crash[CRASH_TEXT_BYTES]);

/* Why the system ended it, as far as [wait_status] asks for that. */
void rank_traces_of_system(int wait_status, const struct memory_events *memory_events,
                           struct verdict_facts *facts);

#endif
