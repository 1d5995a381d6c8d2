/* env_fence_server.h: what the parts of rank 0's end of the env provider's fence share: env_fence_accept.c
 * lets ranks in, env_fence_server.c serves them. */
#ifndef PMIX_SHIM_ENV_FENCE_SERVER_H
#define PMIX_SHIM_ENV_FENCE_SERVER_H

#include <poll.h>
#include <pthread.h>

#include "base/drop_report.h"
#include "pmix_shim/env_fence.h"
#include "pmix_shim/node_ranks.h"

/* Connections whose handshake and first page are not done: how many there may be at once. */
#define MAX_UNAUTHENTICATED 256

struct fence_peer {
    struct handshake handshake;    /* its claim stays valid after the handshake */
    struct secure_channel channel; /* open once the handshake is done */
    char from[80];
    bool known;       /* its first page has come: it is a rank */
    bool arrived;     /* its page of this fence has come */
    bool stays;       /* of a driver of epochs: its process is not at a start */
    bool watches;     /* of a driver of epochs: it wants to know of newcomers */
    bool kept;        /* of a driver of epochs: it knows that its wait has no limit of its own */
    uint32_t watched; /* of a driver of epochs: the events that epoll waits for there; 0: none */
    char gone[160];   /* why a rank's connection ended; "": it has not */
};

struct fence_server {
    const struct env_job *job;
    struct store *store; /* of rank 0's provider; the thread and rank 0 share it under [lock] */
    int listener;
    int wake_fd;            /* rank 0 wakes the thread */
    struct pollfd *pollers; /* of the thread: those two, the news, and as many as peers */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    uint32_t fence;      /* counts the fences from 1 */
    int missing;         /* ranks but 0 whose page of this fence has not come */
    bool inside;         /* rank 0 waits in the fence */
    int64_t deadline_us; /* of that fence, or of the last one */
    int64_t tell_us;     /* when the user is told which ranks are missing; INT64_MAX: not again */
    bool over;           /* rank 0 wants to leave */
    int status;          /* a failure, which ends the job; HVD_OK: none */
    struct hvd_error why;
    struct node_ranks node_ranks;   /* known from the first fence on */
    int64_t accept_us;              /* no connection is accepted earlier */
    struct drop_report drop_report; /* of connections that proved nothing */
    int peer_count;
    struct fence_peer *peers; /* [fence_max_peers] */
    int *peer_of_rank;        /* [job->size]: 1 + the index of the rank's peer; 0: it has not come */
};

int fence_max_peers(const struct fence_server *fence_server);

/* ---- env_fence_accept.c ---- */

/* Listen on MASTER_PORT. */
int fence_listen(struct fence_server *fence_server, struct hvd_error *err);
/* Room for the connections, of which there are none yet; false: no memory. */
bool fence_peers_create(struct fence_server *fence_server);
/* Close all, and free the room. */
void fence_peers_destroy(struct fence_server *fence_server);
/* Close a connection. The last peer moves to its index. */
void fence_remove_peer(struct fence_server *fence_server, int i);
/* Close a connection that is no rank's, and tell the user. The last peer moves to its index. */
void fence_drop_peer(struct fence_server *fence_server, int i, const char *why);
/* Take what has connected, as far as there is room. */
int fence_accept_peers(struct fence_server *fence_server, struct hvd_error *err);
/* Continue the handshake; HVD_OK once it is done. */
int fence_authenticate(struct fence_server *fence_server, struct fence_peer *peer, struct hvd_error *why);
/* Does it claim to be an agent of hvdrun? */
bool fence_peer_is_agent(const struct fence_peer *peer);
/* The first page of [peer] has come. If it is a rank of this job, and the only one with its number,
 * fence_find_rank knows it from now on. */
int fence_check_identity(struct fence_server *fence_server, const struct fence_peer *peer,
                         struct hvd_error *why);
/* The index of the rank's peer; -1: there is none. */
int fence_find_rank(const struct fence_server *fence_server, int rank);

#endif
