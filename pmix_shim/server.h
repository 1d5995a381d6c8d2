/* server.h: the PMIx server of one job on this node, in a process of its own. */
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
    enum { SERVER_CONNECTED, SERVER_FINALIZED, SERVER_ABORT, SERVER_LOST } kind; /* LOST: the server died */
    int rank;
    int status;     /* ABORT: the exit status it asks for */
    char text[256]; /* ABORT: what it said, or ""; LOST: how it died */
};

/* Start a server, which registers the job. Call it while there is one thread only. Does not wait: the server
 * needs some milliseconds. */
int server_open(struct server **serverp, const struct server_job *job, struct hvd_error *err);

/* Wait until it is ready. */
int server_await(struct server *server, struct hvd_error *err);

/* The "NAME=value" strings that connect [rank] to the server, NULL-terminated, for server_environment_free.
 * To be asked once for each rank, in ascending order. */
int server_environment(struct server *server, int rank, char ***environmentp, struct hvd_error *err);
void server_environment_free(char **environment);

/* Readable while server_next has an event; -1 after LOST. */
int server_fd(const struct server *server);

/* The next event; false where there is none. What a rank did before it ended comes before its end can be
 * seen. */
bool server_next(struct server *server, struct server_event *event);

/* NULL is fine. */
void server_close(struct server *server);

#endif
