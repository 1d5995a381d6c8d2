/* env_fence.h: the two ends of the env provider's fence. Each rank sends its page to rank 0, and rank 0
 * sends every rank all pages. */
#ifndef PMIX_SHIM_ENV_FENCE_H
#define PMIX_SHIM_ENV_FENCE_H

#include "pmix_shim/secure_channel.h"

/* The job as the variables describe it. It must outlive the fence's server and client. */
struct env_job {
    int rank, size;
    uint32_t epoch;
    char master_host[256]; /* MASTER_ADDR */
    char master_port[8];   /* MASTER_PORT */
    unsigned char key[HANDSHAKE_KEY_BYTES];
    const struct hvd_log *log;
};

/* The length of a message's header. A page or a sentence follows it. */
#define FENCE_HEAD_BYTES 12

enum fence_message_kind {
    FENCE_PAGE = 1, /* number: which fence; rank: the rank whose page follows */
    FENCE_FAIL = 2  /* number: -status; rank: 0; a sentence follows. Rank 0 ends the job. */
};

struct fence_message {
    uint32_t kind, number, rank;
    const unsigned char *bytes;
    size_t length;
};

/* Send or receive one message, which is one frame of the channel. */
int fence_message_send(struct secure_channel *channel, const struct fence_message *message,
                       struct hvd_error *err);
int fence_message_receive(struct secure_channel *channel, struct fence_message *message,
                          struct hvd_error *err);

/* The status of a handshake that has failed: HVD_ERR_INVALID if the other end is not a valid peer,
 * HVD_ERR_RANK_LOST if it closed the connection, else HVD_ERR_SYSTEM. */
int fence_failure_status(const struct handshake *handshake);

/* Wait until [fd] has one of [events], at the latest until [deadline_us]. */
void poll_until(int fd, short events, int64_t deadline_us);

/* Rank 0's end. It listens from open on, but accepts and receives only inside the fence. */
struct fence_server;
int fence_server_open(struct fence_server **serverp, const struct env_job *job, struct hvd_error *err);
int fence_server_fence(struct fence_server *fence_server, struct store *store, int64_t deadline_us,
                       struct hvd_error *err);
void fence_server_close(struct fence_server *fence_server);

/* The end of all other ranks. It connects in the first fence. */
struct fence_client;
int fence_client_open(struct fence_client **clientp, const struct env_job *job, int64_t deadline_us,
                      struct hvd_error *err);
int fence_client_fence(struct fence_client *fence_client, struct store *store, int64_t deadline_us,
                       struct hvd_error *err);
void fence_client_close(struct fence_client *fence_client);

#endif
