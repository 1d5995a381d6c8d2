/* trace.h: hvdinfo trace: merge the timelines of all ranks, and report which ranks kept the others waiting.
 */
#ifndef TOOLS_HVDINFO_TRACE_H
#define TOOLS_HVDINFO_TRACE_H

/* [arguments]: what follows "trace" on the command line, NULL-terminated. Returns the exit status. */
int hvdinfo_trace(char *const *arguments);

#endif
