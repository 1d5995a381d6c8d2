/* env_fence.h: the two ends of the env provider's fence. Each rank sends its page to rank 0, where a thread
 * keeps them, and asks it for the blobs that it needs. */
#ifndef PMIX_SHIM_ENV_FENCE_H
#define PMIX_SHIM_ENV_FENCE_H

#include "pmix_shim/secure_channel.h"

/* The job as the variables describe it. It must outlive the fence's server and client. */
struct env_job {
    int rank, size;
    uint32_t epoch;
    char master_host[256]; /* MASTER_ADDR */
    char master_port[8];   /* where rank 0 listens */
    const char *port_from; /* how that was found, for errors: "MASTER_PORT" */
    unsigned char key[HANDSHAKE_KEY_BYTES];
    const struct hvd_log *log;
};

/* The length of a message's header. A page or a sentence follows it. */
#define FENCE_HEAD_BYTES 12

enum fence_message_kind {
    FENCE_PAGE = 1, /* number: which fence; rank: the sender's, whose page follows */
    FENCE_FAIL = 2, /* number: -status; rank: 0; a sentence follows. Rank 0 ends the job. */
    FENCE_DONE =
        3, /* number: which fence all ranks have come to; after the first the ranks of the node follow */
    FENCE_ASK = 4, /* rank: of whose blobs; a key follows */
    FENCE_BLOB = 5 /* the answer; number: -status; the blob follows, or a sentence */
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

/* Rank 0's end. A thread serves the other ranks from open to close. Under its lock it uses the pages of all
 * ranks in [store], which must outlive it; rank 0 may put meanwhile, but gets by fence_server_get. */
struct fence_server;
int fence_server_open(struct fence_server **serverp, const struct env_job *job, struct store *store,
                      struct hvd_error *err);
int fence_server_fence(struct fence_server *fence_server, int64_t deadline_us, struct hvd_error *err);
int fence_server_get(struct fence_server *fence_server, int rank, const char *key, struct wireup_blob *blob,
                     struct hvd_error *err);
/* After the first fence: the ranks of this node, in memory that the caller frees. */
int fence_server_node_ranks(struct fence_server *fence_server, int **ranksp, int *countp,
                            struct hvd_error *err);
void fence_server_close(struct fence_server *fence_server);

/* The end of all other ranks. It connects in the first fence. */
struct fence_client;
int fence_client_open(struct fence_client **clientp, const struct env_job *job, int64_t deadline_us,
                      struct hvd_error *err);
int fence_client_fence(struct fence_client *fence_client, struct store *store, int64_t deadline_us,
                       struct hvd_error *err);
int fence_client_get(struct fence_client *fence_client, int rank, const char *key, int64_t deadline_us,
                     struct wireup_blob *blob, struct hvd_error *err);
int fence_client_node_ranks(const struct fence_client *fence_client, int **ranksp, int *countp,
                            struct hvd_error *err);
void fence_client_close(struct fence_client *fence_client);

#endif
