/* env_fence.h: the two ends of the env provider's fence: all ranks send rank 0 their page, and get
 * everyone's. */
#ifndef PMIX_SHIM_ENV_FENCE_H
#define PMIX_SHIM_ENV_FENCE_H

#include "pmix_shim/secure_channel.h"

/* The job as the variables say it. Outlives both ends. */
struct env_job {
    int rank, size;
    uint32_t epoch;
    char master_host[256]; /* MASTER_ADDR */
    char master_port[8];   /* MASTER_PORT */
    unsigned char key[CHANNEL_KEY_BYTES];
    const struct hvd_log *log;
};

/* A message is a head and a page or a sentence. */
#define MESSAGE_HEAD 12

enum message_kind {
    MESSAGE_PAGE = 1, /* number: which fence; rank: whose page follows */
    MESSAGE_FAIL = 2  /* number: -status; rank: 0; a sentence follows: rank 0 gives up */
};

struct message {
    uint32_t kind, number, rank;
    const unsigned char *bytes;
    size_t length;
};

/* One message, in one frame. */
int message_send(struct channel *channel, const struct message *message, struct hvd_error *err);
int message_receive(struct channel *channel, struct message *message, struct hvd_error *err);

/* Wait until [fd] has one of [events], at the latest until [deadline_us]. */
void wait_for(int fd, short events, int64_t deadline_us);

/* Rank 0's end. Listens from open on; serves only inside fence. */
struct hub;
int hub_open(struct hub **hubp, const struct env_job *job, struct hvd_error *err);
int hub_fence(struct hub *hub, struct store *store, int64_t deadline_us, struct hvd_error *err);
void hub_close(struct hub *hub);

/* Another rank's end. Connects in the first fence. */
struct spoke;
int spoke_open(struct spoke **spokep, const struct env_job *job, struct hvd_error *err);
int spoke_fence(struct spoke *spoke, struct store *store, int64_t deadline_us, struct hvd_error *err);
void spoke_close(struct spoke *spoke);

#endif
