/* backends.h: the backends of one rank: which are available, in which order it prefers them, which are open;
 * and its process sets. */
#ifndef BACKEND_BACKENDS_H
#define BACKEND_BACKENDS_H

#include "backend/backend.h"
#include "backend/backend_env.h"

/* One process set: its members, and what each backend keeps for them. */
struct nccl_team;
struct process_set {
    struct team members; /* owns its list of ranks */
    bool added[BACKEND_COUNT];
    bool refused[BACKEND_COUNT]; /* the backend had no room for it */
    bool given_up[BACKEND_COUNT];
    bool used[BACKEND_COUNT]; /* by a batch */
    void *state[BACKEND_COUNT];
    uint64_t sequence;             /* of its last batch */
    struct nccl_team *nccl;        /* from its first batch of tensors on GPUs on; owned */
    bool nccl_refused;             /* NCCL cannot carry between its members: all of them know */
    struct hvd_error nccl_refusal; /* why not */
    bool nccl_told;                /* its members know each other's cards, or need not */
    bool nccl_connected;           /* its communicator is made */
    bool nccl_ready;               /* all members know nccl_registered_bytes too */
    int64_t nccl_registered_bytes; /* of the fusion buffer, on the member that registered least of it */
};

struct backends {
    struct backend_env env;
    int order[BACKEND_COUNT]; /* enum backend_id, best first, then -1. Equal on all ranks; local is always
                               among them, for teams of one */
    bool available[BACKEND_COUNT];
    bool opened[BACKEND_COUNT];
    bool opened_late[BACKEND_COUNT]; /* those that have an open_late */
    bool used[BACKEND_COUNT];        /* by a batch */
    void *state[BACKEND_COUNT];
};

/* Find out which backends of the option are available, and open those that open early. [env] is copied.
 * HVD_ERR_UNSUPPORTED with each backend's reason where none is left. */
int backends_open(struct backends *backends, const struct backend_env *env, int64_t deadline_us,
                  struct hvd_error *err);

/* A mask has bit 1 << enum backend_id of each backend in it. */

/* The available backends that support [need] in teams with this ppn, see team. */
uint32_t backends_supporting(const struct backends *backends, const struct backend_need *need, int ppn);

/* The backends that are available here: a new process set may use these. */
uint32_t backends_available(const struct backends *backends);

/* All ranks of the job call it when a process set is made, with the mask that is available on all of them, to
 * open these backends. */
int backends_open_all(struct backends *backends, uint32_t mask, struct hvd_error *err);

/* Those of [mask] that can carry between [members]. Every rank of the job, member or not, gets the same. */
uint32_t backends_reaching(const struct backends *backends, const struct team *members, uint32_t mask);

/* What team.ppn is for [members]. Every rank of the job gets the same. */
int backends_ppn(const struct backends *backends, const struct team *members);

/* Its members call it to make a process set, and its team in all backends that are open and have room. The
 * list of ranks is copied. Destroying NULL is fine. */
int process_set_create(struct backends *backends, const struct team *members, struct process_set **setp,
                       struct hvd_error *err);
void process_set_destroy(struct backends *backends, struct process_set *set);

/* Those of [mask] that had room for the set, or have not been asked yet. */
uint32_t process_set_backends(const struct process_set *set, uint32_t mask);

/* Is a backend of [mask] not open yet? Then backends_start and backends_open_all may block until the other
 * ranks open it too. */
bool backends_may_block(const struct backends *backends, uint32_t mask);

/* backend_ops of an agreed backend. For the set of all ranks, start first opens the backend where this is its
 * first batch. Start gives the batch its sequence. */
int backends_start(struct backends *backends, struct process_set *set, int backend,
                   struct backend_batch *batch, struct hvd_error *err);
int backends_test(struct backends *backends, struct process_set *set, int backend, bool *movedp, int *rankp,
                  struct hvd_error *err);

/* backend_ops.takes_gpu; false while the backend is not open. */
bool backends_take_gpu(const struct backends *backends, int backend);

/* backend_ops.deadline of the running batch of [set]. */
int64_t backends_deadline(const struct backends *backends, const struct process_set *set, int backend);

/* backend_ops.waits_for of the batch that runs; -1 where the backend has no such call. */
int backends_waits_for(const struct backends *backends, const struct process_set *set, int backend);

/* backend_ops.arm of all open backends. */
void backends_arm(struct backends *backends, bool armed);

/* Give up the running batch of [set] in [backend]: its memory is not touched any more, and the set cannot use
 * this backend again. */
void backends_abort(struct backends *backends, struct process_set *set, int backend);

void backends_after_fork(struct backends *backends);

/* The program has closed descriptors of hvd, and may have files with their numbers by now: no backend touches
 * any of its own from here on. */
void backends_forget(struct backends *backends);

/* All process sets have been destroyed. A zeroed struct is fine. */
void backends_close(struct backends *backends);

#endif
