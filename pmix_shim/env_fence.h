/* env_fence.h: the two ends of the fence of env.c, reunion.c and epochs.c. Each rank sends its page to rank
 * 0, where a thread keeps them, and asks it for the blobs that it needs. */
#ifndef PMIX_SHIM_ENV_FENCE_H
#define PMIX_SHIM_ENV_FENCE_H

#include <netinet/in.h>

#include "pmix_shim/secure_channel.h"

/* Where the ranks meet, as the variables or the first start say. It must outlive the fence's server and
 * client. */
struct env_job {
    int rank, size;
    uint32_t epoch;
    char master_host[256];  /* MASTER_ADDR */
    char master_port[8];    /* where rank 0 listens */
    const char *port_from;  /* how that was found, for errors: "MASTER_PORT" */
    const char *server;     /* who listens there, for errors; NULL: rank 0 */
    const char *must_agree; /* what to see to if rank 0 refuses a rank, for errors */
    bool listens;           /* it does already: where nobody does, it has ended */
    bool runs;              /* or its node does: who does not reach that in ten seconds will not later */
    bool has_agents;        /* agents of hvdrun may connect there as well, */
    bool is_agent;          /* and this process is one, and no rank */
    const int *news;        /* as in base/news.h */
    const int *listener;    /* on rank 0: the socket that listens there already, not owned; NULL: none */
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
    FENCE_ASK = 4,        /* rank: of whose blobs; a key follows */
    FENCE_BLOB = 5,       /* the answer; number: -status; the blob follows, or a sentence */
    FENCE_NEXT_EPOCH = 6, /* to a driver of epochs; number: the port where the sender listens; rank: its lease
                             in ms; if the sender has found a rank of the last epoch silent, it follows */
    FENCE_EPOCH = 7,      /* its answer; number: of the epoch; rank: the receiver's; its place follows */
    FENCE_WATCH = 8,      /* to a driver of epochs: do newcomers wait? */
    FENCE_NEWS = 9,       /* its answer, and whenever there are some; number: of enum fence_news */
    FENCE_STAY = 10,      /* to a driver of epochs: the start is over, and the connection stays */
    FENCE_OVERDUE = 11,   /* to a driver of epochs: the sender has waited for its answer as long as it may */
    FENCE_BEAT = 12 /* to a driver of epochs: the sender's node runs; number 0: it sends no more beats */
};

enum fence_news {
    FENCE_NO_NEWS = 0,
    FENCE_NEWCOMERS = 1, /* wait for the next epoch */
    FENCE_LOSS = 2,      /* the start of this epoch has lost a rank */
    FENCE_SPARE = 3 /* the asker waits without a limit: for room in an epoch, or for enough ranks of one */
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

/* A process's place in an epoch, and where it meets the others: the port and address at which its rank 0
 * listens. */
#define FENCE_HOST_BYTES  INET6_ADDRSTRLEN
#define FENCE_PLACE_BYTES (4 + 2 + 2 + FENCE_HOST_BYTES)

struct fence_place {
    int rank, size;
    uint16_t port;
    char host[FENCE_HOST_BYTES];
};

/* Write the place, with its epoch, into a message whose bytes are in [bytes]. */
struct fence_message fence_place_encode(const struct fence_place *place, uint32_t epoch,
                                        unsigned char bytes[FENCE_PLACE_BYTES]);
/* HVD_ERR_MISMATCH, and [place] unchanged, if it is none in an epoch of at most [most] ranks. */
int fence_place_decode(struct fence_place *place, const struct fence_message *message, int most,
                       struct hvd_error *err);

/* What follows FENCE_NEXT_EPOCH. Encoding returns its length; decoding returns -1 if no rank of [size] does.
 */
#define FENCE_SILENT_BYTES 4
size_t fence_silent_encode(int rank, unsigned char bytes[FENCE_SILENT_BYTES]);
int fence_silent_decode(const struct fence_message *message, int size);

/* The status of a handshake that has failed: HVD_ERR_INVALID if the other end is not a valid peer,
 * HVD_ERR_RANK_LOST if it closed the connection, else HVD_ERR_SYSTEM. */
int fence_failure_status(const struct handshake *handshake);

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
/* For tests: one whose handshake is done. It takes the socket; [job] must outlive it. NULL: no memory. */
struct fence_client *fence_client_of(const struct env_job *job, struct handshake *handshake);
int fence_client_open(struct fence_client **clientp, const struct env_job *job, int64_t deadline_us,
                      struct hvd_error *err);
int fence_client_fence(struct fence_client *fence_client, struct store *store, int64_t deadline_us,
                       struct hvd_error *err);
int fence_client_get(struct fence_client *fence_client, int rank, const char *key, int64_t deadline_us,
                     struct wireup_blob *blob, struct hvd_error *err);
/* Send [question], and wait for an answer of [kind], valid until the next call. Connects if need be. News
 * that come meanwhile are old. */
int fence_client_ask(struct fence_client *fence_client, const struct fence_message *question, uint32_t kind,
                     int64_t deadline_us, struct fence_message *answer, struct hvd_error *err);
/* Of an agent: connect, and hand the connection over. */
int fence_client_connect(struct fence_client *fence_client, int64_t deadline_us,
                         struct secure_channel *channel, struct hvd_error *err);
/* Send [message], to which there is no answer. */
int fence_client_tell(struct fence_client *fence_client, const struct fence_message *message,
                      struct hvd_error *err);
/* Take an answer of [kind] that has come; HVD_IN_PROGRESS if none has. */
int fence_client_take(struct fence_client *fence_client, uint32_t kind, struct fence_message *answer,
                      struct hvd_error *err);
/* The socket, once it has connected. */
int fence_client_fd(const struct fence_client *fence_client);
int fence_client_node_ranks(const struct fence_client *fence_client, int **ranksp, int *countp,
                            struct hvd_error *err);
void fence_client_close(struct fence_client *fence_client);

#endif
