/* server.h: the PMIx server of one job on this node, in a process of its own. hvdrun uses it, from one
 * thread. */
#ifndef PMIX_SHIM_SERVER_H
#define PMIX_SHIM_SERVER_H

#include <stdbool.h>

#include "base/status.h"

struct server;

struct server_job {
    const char *host;    /* this node's name */
    const char *scratch; /* a private folder for the files of PMIx and of the ranks' MPI library */
    int size;            /* ranks in the job, all on this node */
};

struct server_event {
    enum {
        SERVER_CONNECTED,
        SERVER_FINALIZED,
        SERVER_ABORT,
        SERVER_ALIVE,
        SERVER_CRASHES, /* LOST follows */
        SERVER_LOST     /* the server died */
    } kind;
    int rank;
    int status; /* ABORT: the exit status that the rank asks for; CRASHES: ranks that had ended amid the job
                 */
    char text[256]; /* ABORT: the rank's message, or ""; LOST: how the server died */
};

/* Start a server, which registers the job. Call it while the process has only one thread, as it forks. It
 * does not wait: the server needs some milliseconds to start. */
int server_open(struct server **serverp, const struct server_job *job, struct hvd_error *err);

/* Wait until the server is ready. */
int server_await(struct server *server, struct hvd_error *err);

/* The "NAME=value" strings that connect [rank] to the server, NULL-terminated; free them with
 * server_environment_free. Call it once for each rank. */
int server_environment(struct server *server, int rank, char ***environmentp, struct hvd_error *err);
void server_environment_free(char **environment);

/* This descriptor is readable while server_next has an event; -1 after LOST. */
int server_fd(const struct server *server);

/* Returns the next event, or false if there is none. The events of a rank come before hvdrun can see that
 * the rank has ended. */
bool server_next(struct server *server, struct server_event *event);

/* Ask the server whether it is alive: ALIVE or LOST follows, after all events that came before. */
void server_ask_alive(struct server *server);

/* Ends the server. NULL is fine, also for server_fd, server_next and server_ask_alive, as of a server that is
 * lost. */
void server_close(struct server *server);

#endif
