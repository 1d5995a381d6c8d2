/* server_process.h: what the PMIx server does in its own process, and what it hands over at its start. */
#ifndef SHIM_SERVER_PROCESS_H
#define SHIM_SERVER_PROCESS_H

#include "pmix_shim/server.h"

/* Before everything on the pipe: [length] bytes follow. The server first hands over one piece without bytes,
 * or a bad status with its sentence and nothing more; then for each rank the strings of its environment, each
 * with its final 0. */
struct server_record {
    int status;
    unsigned length;
};

#define SERVER_RECORD_BYTES 65536 /* longest */

/* Serve until hvdrun's end of [channel_fd] is closed; what the ranks need to know goes to [pipe_fd]. */
_Noreturn void server_process_run(const struct server_job *job, int channel_fd, int pipe_fd);

#endif
