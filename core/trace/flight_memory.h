/* flight_memory.h: the memory of a flight record: a file of the launcher's, which outlives the process, or
 * memory that the process made. Others of this user may read either while the process runs. */
#ifndef TRACE_FLIGHT_MEMORY_H
#define TRACE_FLIGHT_MEMORY_H

#include "base/descriptors.h"
#include "trace/flight.h"

/* Names the file, which a launcher sets for each rank. Nobody but the user may write into its folder; or it
 * is a descriptor that the rank inherits, "/proc/self/fd/N", of memory from flight_memory_make. */
#define FLIGHT_MEMORY_VARIABLE "HVD_FLIGHT_MEMORY"

/* What /proc/PID/fd shows of memory that is no launcher's file. */
#define FLIGHT_MEMORY_NAME "hvd-flight"

struct flight_memory {
    struct flight *flight;
    bool of_launcher;               /* the record is in the launcher's file */
    struct descriptors_guard shown; /* of memory that the process made: by this descriptor others find it */
};

/* An empty record, in the file [path]. In memory that the process makes where [path] is NULL or cannot be
 * used: the record is worth no failure. HVD_ERR_NO_MEMORY where memory ran out. */
int flight_memory_create(struct flight_memory *memory, const char *path);
void flight_memory_destroy(struct flight_memory *memory); /* a zeroed one is fine */

/* For a launcher that has no folder: a descriptor of memory for one rank's record, close-on-exec, of a size
 * that cannot change; -1 with errno. */
int flight_memory_make(void);

/* Has a process joined a job with the record in [fd]? And not left it? Each reads a number or two, whatever
 * is there. */
bool flight_memory_joined(int fd);
bool flight_memory_stays(int fd);

/* For the launcher, before it ends the rank in whose record's file this is: [first] failed first. False
 * where there is no record of this version of hvd. */
bool flight_memory_tell_verdict(const char *path, int first);

/* For the launcher, when the rank has ended: its record, which the caller frees. NULL where there is none, or
 * one of another version of hvd. */
struct flight *flight_memory_read(const char *path);
struct flight *flight_memory_read_fd(int fd);

/* The same while the rank runs: without the operations that changed places meanwhile. Reads only what has the
 * size of a record, and never waits, whatever [fd] is. */
struct flight *flight_memory_read_live(int fd);

#endif
