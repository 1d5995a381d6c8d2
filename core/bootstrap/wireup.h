/* wireup.h: this process's rank in the job, and small blobs exchanged among all ranks at its start. */
#ifndef BOOTSTRAP_WIREUP_H
#define BOOTSTRAP_WIREUP_H

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

/* Choose the provider from the environment (pmix, pmi, env, singleton), and open it. A job of one rank is
 * never assumed if the environment says otherwise: that is HVD_ERR_INVALID with the cause and what to do. */
int wireup_open(struct wireup *wireup, const struct hvd_config *config, const struct hvd_log *log,
                int64_t deadline_us, struct hvd_job *job, struct hvd_error *err);

/* A zeroed [wireup] is fine. */
void wireup_close(struct wireup *wireup);

#endif
