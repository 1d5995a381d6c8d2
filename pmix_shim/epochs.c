/* epochs.c: the provider of later starts in an elastic job, and of the first start of a newcomer: a process
 * asks the launcher, which has seen who ended, for its place in the next epoch, and meets the others at the
 * socket of that epoch's rank 0. The launcher tells rank 0 when newcomers wait for the next epoch. The
 * connection to the launcher stays: where srun is the launcher, its end says that the process has ended. */
#include "config.h"
#include "pmix_shim/provider.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/secret_key.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/launch_variables.h"
#include "base/listener.h"
#include "base/secret.h"
#include "pmix_shim/fence_wireup.h"

/* Of this process. */
static struct {
    bool begun;                  /* PMIx has served its first start */
    int listener;                /* where the others come if this is rank 0 of an epoch; -1: none */
    struct env_job launcher;     /* where it asks */
    struct fence_client *client; /* the connection there, from the first question on */
    bool beats;                  /* are sent there, now that an epoch has begun */
    int news;                    /* its socket, where news come if a start loses a rank; -1: no start */
    bool watches;                /* on rank 0: the launcher tells of newcomers */
    bool newcomers;              /* they wait for the next epoch */
    bool silent;                 /* the launcher did not answer, and has no news before the next start */
    int silent_rank;             /* found in the last epoch, to be told with the next question; -1: none */
    bool first;                  /* the launcher has had no epoch before this one */
    int absences;                /* starts in a row to which some rank did not come */
    pthread_mutex_t lock;        /* of the connection, once a start is over: beats come from any thread */
} epochs = {.lock = PTHREAD_MUTEX_INITIALIZER, .listener = -1, .news = -1, .silent_rank = -1};

#define WATCH_US INT64_C(10000000) /* how long the launcher is asked for news the first time */
#define AGAIN_US INT64_C(10000000) /* and at least for a place, when a connection with it has ended */

#define ABSENCES_MAX 3 /* then no rank stands still, but the network does not let them meet */

void epochs_begin(void)
{
    epochs.begun = true;
}

bool wireup_is_elastic(void)
{
    /* in a job that another launcher has started inside one of hvdrun's the secret does not count */
    return getenv(EPOCHS_VARIABLE) != NULL && secret_of_job(NULL) != NULL;
}

bool epochs_follow(enum provider provider)
{
    if (!wireup_is_elastic())
        return false;
    return provider == PROVIDER_PMIX ? epochs.begun : provider != PROVIDER_PMI && launch_is_newcomer(NULL);
}

/* Where the launcher listens, as EPOCHS_VARIABLE says it: "ADDRESS PORT SLOT SLOTS", and EPOCHS_NEWCOMER if
 * this process is one. */
static int read_launcher(struct env_job *launcher, struct hvd_error *err)
{
    int slot = -1, slots = 0, read = -1;
    const char *text = getenv(EPOCHS_VARIABLE);
    sscanf(text, "%63[0-9.:a-f] %5[0-9] %7d %7d%n", launcher->master_host, launcher->master_port, &slot,
           &slots, &read);
    if (read < 0 || (text[read] != 0 && strcmp(text + read, EPOCHS_NEWCOMER) != 0) || slot < 0 ||
        slot >= slots)
        return error_set(err, HVD_ERR_INVALID, "%s=%.64s: damaged; leave it as the launcher set it",
                         EPOCHS_VARIABLE, text);
    launcher->rank = slot + 1; /* the launcher is number 0 */
    launcher->size = slots + 1;
    launcher->server = "the launcher of this elastic job (of srun: hvdepochs)";
    launcher->listens = true;
    launcher->must_agree = "HVD_JOB_KEY and HVD_EPOCH must be as the launcher set them";
    const char *secret = secret_of_job(NULL);
    int rc = secret_key_check(secret, err);
    if (rc == HVD_OK)
        secret_key_derive(secret, launcher->key);
    return rc;
}

/* Listen for the others, in case that this is rank 0. */
static int listen_anew(uint16_t *portp, struct hvd_error *err)
{
    descriptors_close(&epochs.listener);
    epochs.listener = listener_open(0);
    *portp = epochs.listener < 0 ? 0 : listener_port(epochs.listener);
    return *portp != 0 ? HVD_OK : error_set_errno(err, "cannot listen for the ranks of the next epoch");
}

static void disconnect(void)
{
    fence_client_close(epochs.client);
    epochs.client = NULL;
    epochs.watches = false;
}

void epochs_close_sockets(void)
{
    descriptors_close(&epochs.listener);
    disconnect();
}

/* Connect to the launcher, unless this process has. */
static int reach_launcher(const struct hvd_log *log, uint32_t epoch, int64_t deadline_us,
                          struct hvd_error *err)
{
    if (epochs.client != NULL)
        return HVD_OK;
    epochs.launcher = (struct env_job){.epoch = epoch, .log = log};
    int rc = read_launcher(&epochs.launcher, err);
    return rc == HVD_OK ? fence_client_open(&epochs.client, &epochs.launcher, deadline_us, err) : rc;
}

/* A spare waits inside hvd_init, and with the others' work its own has ended. To its program, which has done
 * nothing, an error would be a failure. */
static void end_spare(void)
{
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

/* Ask it. If the connection ends, another one shows whether the launcher has ended too. */
static int ask_launcher(const struct fence_message *question, int64_t deadline_us,
                        struct fence_message *answer, struct hvd_error *err)
{
    int rc = fence_client_ask(epochs.client, question, FENCE_EPOCH, deadline_us, answer, err);
    if (rc != HVD_ERR_RANK_LOST)
        return rc;
    int64_t again_us = clock_us() + AGAIN_US; /* a spare may have waited beyond its deadline */
    deadline_us = deadline_us > again_us ? deadline_us : again_us;
    disconnect();
    rc = reach_launcher(epochs.launcher.log, epochs.launcher.epoch, deadline_us, err);
    return rc == HVD_OK ? fence_client_ask(epochs.client, question, FENCE_EPOCH, deadline_us, answer, err)
                        : rc;
}

/* Ask for a place, and wait until all processes that are left have asked, or until the launcher gives up
 * those that have not: it hears when the time is over, and has [more_us] to answer. */
static int ask(const struct fence_message *question, int64_t deadline_us, int64_t more_us,
               struct hvd_job *job, struct env_job *where, struct hvd_error *err)
{
    static const struct fence_message overdue = {.kind = FENCE_OVERDUE};
    struct fence_message answer;
    struct fence_place place;
    int rc = ask_launcher(question, deadline_us, &answer, err);
    if (rc == HVD_ERR_TIMEOUT && epochs.client != NULL && fence_client_fd(epochs.client) >= 0)
        rc = fence_client_ask(epochs.client, &overdue, FENCE_EPOCH, clock_us() + more_us, &answer, err);
    if (rc == HVD_ERR_SHUTDOWN)
        end_spare();
    if (rc == HVD_OK)
        rc = fence_place_decode(&place, &answer, epochs.launcher.size - 1, err);
    if (rc != HVD_OK)
        return rc;
    job->epoch += answer.number;
    job->rank = place.rank;
    job->size = place.size;
    snprintf(where->master_port, sizeof(where->master_port), "%u", place.port);
    snprintf(where->master_host, sizeof(where->master_host), "%s", place.host);
    epochs.news = fence_client_fd(epochs.client);
    return HVD_OK;
}

/* Each epoch has a key of its own. */
static int derive_key(uint32_t epoch, unsigned char *key, struct hvd_error *err)
{
    char purpose[32];
    struct env_job launcher = {.rank = 0};
    int rc = read_launcher(&launcher, err);
    int length = snprintf(purpose, sizeof(purpose), "hvd epoch %u", epoch);
    if (rc == HVD_OK)
        crypto_generichash(key, HANDSHAKE_KEY_BYTES, (const unsigned char *)purpose, (size_t)length,
                           launcher.key, HANDSHAKE_KEY_BYTES);
    sodium_memzero(launcher.key, sizeof(launcher.key));
    return rc;
}

/* The start is over. Tell the launcher, so that it has no more news of it. */
static void end_start(void)
{
    static const struct fence_message stay = {.kind = FENCE_STAY};
    struct hvd_error why;
    epochs.news = -1;
    if (epochs.client != NULL && (fence_client_fd(epochs.client) < 0 || /* it could not connect */
                                  fence_client_tell(epochs.client, &stay, &why) != HVD_OK))
        disconnect();
    /* the launcher's own machine is not silent */
    epochs.beats = epochs.client != NULL && strcmp(epochs.launcher.master_host, "127.0.0.1") != 0;
}

/* If the connection has failed, the next question finds out why. */
static void tell_beat(uint32_t number)
{
    const struct fence_message beat = {.kind = FENCE_BEAT, .number = number};
    struct hvd_error why;
    if (epochs.beats && epochs.client != NULL && fence_client_fd(epochs.client) >= 0)
        epochs.beats = fence_client_tell(epochs.client, &beat, &why) == HVD_OK && number != 0;
}

void wireup_beat(void)
{
    if (pthread_mutex_trylock(&epochs.lock) != 0)
        return; /* a question is on its way */
    tell_beat(1);
    pthread_mutex_unlock(&epochs.lock);
}

void wireup_end_epoch(int silent_rank)
{
    pthread_mutex_lock(&epochs.lock);
    tell_beat(0);
    epochs.beats = false;
    pthread_mutex_unlock(&epochs.lock);
    epochs.silent_rank = silent_rank;
    epochs.absences = 0;
}

static void epochs_close(void *state)
{
    fence_wireup_close(state);
    end_start();
    sodium_memzero(epochs.launcher.key, sizeof(epochs.launcher.key));
}

static int epochs_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                       struct hvd_job *job, void **statep, struct hvd_error *err)
{
    struct env_job where = {.log = log,
                            .port_from = "of this epoch",
                            .must_agree = "all ranks that are left must call hvd_init again",
                            .listens = true,
                            .news = &epochs.news,
                            .listener = &epochs.listener};
    uint16_t port = 0;
    uint32_t epoch = job->epoch; /* of the launcher */
    epochs.watches = epochs.newcomers = epochs.silent = false;
    int rc = sodium_init() < 0 ? error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised") : HVD_OK;
    if (rc == HVD_OK)
        rc = reach_launcher(log, epoch, deadline_us, err);
    if (rc == HVD_OK)
        rc = listen_anew(&port, err);
    unsigned char silent[FENCE_SILENT_BYTES];
    const struct fence_message question = {
        .kind = FENCE_NEXT_EPOCH,
        .number = port,
        .rank = (uint32_t)(config->lease_us / 1000),
        .bytes = silent,
        .length = epochs.silent_rank < 0 ? 0 : fence_silent_encode(epochs.silent_rank, silent)};
    epochs.silent_rank = -1;
    if (rc == HVD_OK)
        rc = ask(&question, deadline_us, config->lease_us, job, &where, err);
    epochs.first = !epochs.begun && job->epoch == epoch + 1;
    if (rc == HVD_OK)
        rc = derive_key(job->epoch, where.key, err);
    if (rc == HVD_OK && strcmp(epochs.launcher.master_host, "127.0.0.1") == 0)
        job->local_rank = job->rank, job->local_size = job->size; /* all are on the launcher's machine */
    if (rc == HVD_OK)
        rc = fence_wireup_open(&where, job, deadline_us, statep, err);
    sodium_memzero(where.key, sizeof(where.key));
    epochs.launcher.log = NULL; /* the connection stays, the log may not */
    if (rc != HVD_OK)
        epochs_close(NULL);
    return rc;
}

/* A rank that has its place may stand still on its way to the others. These ask again, and the launcher gives
 * it up; a job without an epoch before has nothing to go on from. */
static int lose_absent(int rc)
{
    if (rc != HVD_ERR_TIMEOUT || epochs.first || ++epochs.absences >= ABSENCES_MAX)
        return rc;
    return HVD_ERR_RANK_LOST;
}

static int epochs_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    return lose_absent(fence_wireup_fence(state, deadline_us, err));
}

static int epochs_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                      struct hvd_error *err)
{
    return lose_absent(fence_wireup_get(state, rank, key, deadline_us, blob, err));
}

/* ---- News ----------------------------------------------------------------------------------------- */

static int begin_watching(struct fence_message *answer, struct hvd_error *err)
{
    static const struct fence_message question = {.kind = FENCE_WATCH};
    int64_t deadline_us = clock_us() + WATCH_US;
    uint32_t epoch = 0;
    int rc = provider_read_epoch(NULL, &epoch, err);
    if (rc == HVD_OK)
        rc = reach_launcher(NULL, epoch, deadline_us, err);
    if (rc == HVD_OK)
        rc = fence_client_ask(epochs.client, &question, FENCE_NEWS, deadline_us, answer, err);
    epochs.watches = rc == HVD_OK;
    sodium_memzero(epochs.launcher.key, sizeof(epochs.launcher.key));
    return rc;
}

const int *wireup_news(void)
{
    return &epochs.news;
}

static int ask_news(bool *newsp, struct hvd_error *err)
{
    struct fence_message answer = {.number = 0};
    int rc = HVD_OK;
    if (!epochs.watches)
        rc = begin_watching(&answer, err);
    else
        rc = fence_client_take(epochs.client, FENCE_NEWS, &answer, err);
    epochs.silent = rc < 0;
    if (epochs.silent)
        disconnect();
    else
        *newsp = epochs.newcomers = rc == HVD_OK && answer.number == FENCE_NEWCOMERS;
    return rc < 0 ? rc : HVD_OK;
}

int wireup_ask_news(bool *newsp, struct hvd_error *err)
{
    *newsp = epochs.newcomers;
    if (epochs.newcomers || epochs.silent || !wireup_is_elastic())
        return HVD_OK;
    pthread_mutex_lock(&epochs.lock);
    int rc = ask_news(newsp, err);
    pthread_mutex_unlock(&epochs.lock);
    return rc;
}

const struct wireup_ops wireup_epochs_ops = {.name = "epochs",
                                             .open = epochs_open,
                                             .put = fence_wireup_put,
                                             .fence = epochs_fence,
                                             .get = epochs_get,
                                             .local_peers = fence_wireup_local_peers,
                                             .close = epochs_close};
