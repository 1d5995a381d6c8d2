/* flight_memory.h: the memory of a flight record: a file of the launcher's, which outlives the process, or
 * memory of the process. */
#ifndef TRACE_FLIGHT_MEMORY_H
#define TRACE_FLIGHT_MEMORY_H

#include "trace/flight.h"

/* Names the file, which a launcher sets for each rank. Nobody but the user may write into its folder; or it
 * is a descriptor that the rank inherits, "/proc/self/fd/N", of memory from flight_memory_make. */
#define FLIGHT_MEMORY_VARIABLE "HVD_FLIGHT_MEMORY"

/* An empty record, in the file [path]. In memory of the process where [path] is NULL or cannot be used: the
 * record is worth no failure. *launcherp: it is in the file. NULL where memory ran out. */
struct flight *flight_memory_create(const char *path, bool *launcherp);
void flight_memory_destroy(struct flight *flight); /* NULL is fine */

/* For a launcher that has no folder: a descriptor of memory for one rank's record, close-on-exec, of a size
 * that cannot change; -1 with errno. */
int flight_memory_make(void);

/* Has a process joined a job with the record in [fd], and not left it? Reads two numbers, whatever is there.
 */
bool flight_memory_stays(int fd);

/* For the launcher, before it ends the rank in whose record's file this is: [first] failed first. False
 * where there is no record of this version of hvd. */
bool flight_memory_tell_verdict(const char *path, int first);

/* For the launcher, when the rank has ended: its record, which the caller frees. NULL where there is none, or
 * one of another version of hvd. */
struct flight *flight_memory_read(const char *path);
struct flight *flight_memory_read_fd(int fd);

#endif
