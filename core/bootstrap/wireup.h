/* wireup.h: this process's rank in the job, and small blobs exchanged among all ranks at its start. */
#ifndef BOOTSTRAP_WIREUP_H
#define BOOTSTRAP_WIREUP_H

#include <netinet/in.h>
#include <stdbool.h>

#include "options/config.h"
#include "base/job.h"
#include "base/log.h"

#define WIREUP_BLOB_BYTES 65536 /* the longest blob */

struct wireup_blob {
    void *bytes; /* NULL if there is none */
    size_t length;
};

/* One provider. Its functions are called on one thread, in the order open, (put, fence, get)*, close.
 * Every call ends by [deadline_us] (clock_us) with HVD_ERR_TIMEOUT and a sentence that says which ranks
 * did not arrive, if that is known. */
struct wireup_ops {
    const char *name;
    /* Mandatory: fill [job] and [statep]. On failure nothing is left behind. */
    int (*open)(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                struct hvd_job *job, void **statep, struct hvd_error *err);
    /* Mandatory: copy [bytes]. Other ranks can get them under [key] after the next fence. */
    int (*put)(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err);
    /* Mandatory: return when all ranks have called it. */
    int (*fence)(void *state, int64_t deadline_us, struct hvd_error *err);
    /* Mandatory: return what [rank] put before the last fence, in memory that the caller frees. */
    int (*get)(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
               struct hvd_error *err);
    /* Optional: the ranks that the launcher says are on this rank's node, this one included, ascending, in
     * *ranksp, which the caller frees; *countp is 0 if the launcher does not say. */
    int (*local_peers)(void *state, int **ranksp, int *countp, struct hvd_error *err);
    /* Mandatory: leave. The caller has fenced after its last get, so no rank still asks this one. NULL is
     * fine. */
    void (*close)(void *state);
};

struct wireup {
    const struct wireup_ops *ops;
    void *state;
    void *module; /* of dlopen, or NULL */
};

/* Before wire-up: read what hvd's own launcher, hvdrun or the plug-in, says of this process's place, and
 * enter rank, size, local_rank, local_size and host. False if this job is of another launcher, or its
 * variables do not fit together. */
bool wireup_foresee(struct hvd_job *job);

/* What names this process's rank in the launcher's job. */
struct wireup_identity {
    char name[65];         /* differs from that of every other rank and job; others cannot guess it */
    const char *rank;      /* as the launcher wrote it; the environment's */
    const char *variables; /* by which wire-up finds the job: without them the process is alone */
};

/* Before wire-up: false in a job of one rank, which any process may start, and where the environment is
 * damaged. */
bool wireup_identify(struct wireup_identity *identity);

/* Choose the provider from the environment (pmix, pmi, env, singleton), and open it. A job of one rank is
 * never assumed if the environment says otherwise: that is HVD_ERR_INVALID with the cause and what to do. */
int wireup_open(struct wireup *wireup, const struct hvd_config *config, const struct hvd_log *log,
                int64_t deadline_us, struct hvd_job *job, struct hvd_error *err);

/* A zeroed [wireup] is fine. */
void wireup_close(struct wireup *wireup);

/* ---- The later starts of a process ----
 *
 * Each time that a process opens libpmix costs it memory and one of its 1024 thread keys for good; and while
 * it has libpmix open its death ends a whole step of Slurm. So PMIx serves the first start of a process only.
 * In it rank 0 begins to listen for the later ones, which go by its socket. */

#define WIREUP_REUNION_KEY_BYTES 32

/* Does [wireup] serve the first start only? */
bool wireup_needs_reunion(const struct wireup *wireup);

/* On rank 0 of the launcher's job: listen, and return the port; 0 if no socket is to be had, and then later
 * starts ask the launcher again. */
uint16_t wireup_open_reunion(void);

/* A start of the launcher's whole job, as the launcher describes it in [job], has succeeded: its next start
 * goes by rank 0's [port] at [rank_0], for those who know [key]. Ignored where [port] is 0 and there are
 * other ranks.
 */
void wireup_plan_reunion(const struct hvd_job *job, const struct in6_addr *rank_0, uint16_t port,
                         const unsigned char key[WIREUP_REUNION_KEY_BYTES]);

/* The ranks lost each other: the next start asks the launcher, which knows who is left. */
void wireup_forget_reunion(void);

/* An epoch that had begun has ended for this rank. If it has found [silent_rank] silent, as its node may be
 * stopped as a whole, the next start tells the launcher, which may see no end of it. -1: none. */
void wireup_end_epoch(int silent_rank);

/* On the leader of a node, from any thread, several times in a lease: the launcher of an elastic job hears
 * that the node runs. Never blocks. */
void wireup_beat(void);

/* Can this job go on when a rank is lost? */
bool wireup_is_elastic(void);

/* How a start hears that it has lost a rank, as in base/news.h. */
const int *wireup_news(void);

/* On rank 0 of an elastic job: does the launcher know processes that wait to join the next epoch? Blocks only
 * the first time in an epoch, until the launcher has answered. Never in another job. */
int wireup_ask_news(bool *newsp, struct hvd_error *err);

/* In a forked child, which has no part in the job. */
void wireup_after_fork(void);

#endif
