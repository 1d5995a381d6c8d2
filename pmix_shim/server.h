/* server.h: the PMIx server that hvdrun embeds: one job of ranks on this node. Main thread only. */
#ifndef SHIM_SERVER_H
#define SHIM_SERVER_H

#include <stdbool.h>

#include "base/status.h"

struct server;

struct server_job {
    const char *host;    /* this node's name */
    const char *scratch; /* a private folder for PMIx's files and those of the ranks' MPI library */
    int size;            /* ranks */
};

struct server_event {
    enum { SERVER_CONNECTED, SERVER_FINALIZED, SERVER_ABORT } kind;
    int rank;
    int status;     /* ABORT: the exit status it asks for */
    char text[256]; /* ABORT: what it said, or "" */
};

/* Start a server and register the job. It starts threads; they inherit the caller's signal mask, which must
 * block what the caller waits for. Changes this process's environment (PMIX_*, HWLOC_*), never a rank's. */
int server_open(struct server **serverp, const struct server_job *job, struct hvd_error *err);

/* The "NAME=value" strings that connect [rank] to the server, NULL-terminated, for server_environment_free.
 */
int server_environment(struct server *server, int rank, char ***environmentp, struct hvd_error *err);
void server_environment_free(char **environment);

/* Readable while server_next has an event. */
int server_fd(const struct server *server);

/* The next event; false where there is none. A rank that aborts waits until its event was taken. */
bool server_next(struct server *server, struct server_event *event);

/* NULL is fine. */
void server_close(struct server *server);

#endif
