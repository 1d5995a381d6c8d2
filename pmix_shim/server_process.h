/* server_process.h: the process of the PMIx server, and what it sends hvdrun at its start. */
#ifndef PMIX_SHIM_SERVER_PROCESS_H
#define PMIX_SHIM_SERVER_PROCESS_H

#include "pmix_shim/server.h"

/* The header of a record on the pipe; [length] bytes follow it. The server first sends one record without
 * bytes, or a bad status with its sentence and then nothing more. After that it sends one record for each
 * rank: the strings of its environment, each with its final 0. */
struct server_record {
    int status;
    unsigned length;
};

#define SERVER_RECORD_BYTES 65536 /* the longest record */

/* Serve until hvdrun closes its end of [channel_fd]. The environment of the ranks goes to [pipe_fd]. */
_Noreturn void server_process_run(const struct server_job *job, int channel_fd, int pipe_fd);

#endif
