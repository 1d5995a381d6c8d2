/* backends.h: the backends of one rank: which it has, in which order it likes them, which are open. */
#ifndef BACKEND_BACKENDS_H
#define BACKEND_BACKENDS_H

#include "backend/backend.h"

/* The members of one process set, and what each backend keeps for them. */
struct process_set {
    struct team members; /* its list is owned here */
    bool added[BACKEND_COUNT];
    bool refused[BACKEND_COUNT]; /* there was no room for it */
    bool given_up[BACKEND_COUNT];
    bool used[BACKEND_COUNT]; /* by a batch */
    void *state[BACKEND_COUNT];
    uint64_t sequence; /* of its last batch */
};

struct backends {
    struct backend_env env;
    int order[BACKEND_COUNT]; /* enum backend_id, best first; -1 where there are no more. Equal on all ranks;
                               local is always among them, for teams of one */
    bool available[BACKEND_COUNT];
    bool opened[BACKEND_COUNT];
    bool opened_late[BACKEND_COUNT]; /* those that have an open_late */
    bool used[BACKEND_COUNT];        /* by a batch */
    void *state[BACKEND_COUNT];
};

/* Find out which backends of the option there are, and open those that open early. [env] is copied.
 * HVD_ERR_UNSUPPORTED where none is left, with each one's reason. */
int backends_open(struct backends *set, const struct backend_env *env, int64_t deadline_us,
                  struct hvd_error *err);

/* Bits 1 << enum backend_id of those that can carry it in teams with such an [each], see team. */
uint32_t backends_supporting(const struct backends *set, const struct backend_need *need, int each);

/* Bits of those that are available here: what a new process set may use. */
uint32_t backends_available(const struct backends *set);

/* All ranks of the job call it when a process set is made, with the backends that all of them have: opens
 * them.
 */
int backends_open_all(struct backends *set, uint32_t backends, struct hvd_error *err);

/* Those of [backends] that can carry between [members]; the same on all ranks of the job, members or not. */
uint32_t backends_reaching(const struct backends *set, const struct team *members, uint32_t backends);

/* What team.each is for [members]; the same on all ranks of the job. */
int backends_ppn(const struct backends *set, const struct team *members);

/* Make the team of [members] (its list is copied; ranks ascending), in all backends that are open and have
 * room for it; the members of it call it. NULL is fine for destroying. */
int process_set_create(struct backends *set, const struct team *members, struct process_set **teamp,
                       struct hvd_error *err);
void process_set_destroy(struct backends *set, struct process_set *team);

/* Those of [backends] that had room for it, or have not been asked yet. */
uint32_t process_set_backends(const struct process_set *team, uint32_t backends);

/* May backends_start block with this batch, until the other members have come to it too? */
bool backends_may_block(const struct process_set *team, int backend, const struct backend_batch *batch);

/* backend_ops of an agreed backend; for the team of all ranks start opens it first where this is its first
 * batch. The batch gets its sequence here. */
int backends_start(struct backends *set, struct process_set *team, int backend, struct backend_batch *batch,
                   struct hvd_error *err);
int backends_test(struct backends *set, struct process_set *team, int backend, bool *movedp, int *rankp,
                  struct hvd_error *err);

/* backend_ops.arm of all that are open. */
void backends_arm(struct backends *set, bool armed);

/* Give up the running batch of [team] in [backend]: it touches no memory any more, and can carry no other. */
void backends_abort(struct backends *set, struct process_set *team, int backend);

void backends_after_fork(struct backends *set);
/* All teams were destroyed. A zeroed one is fine. */
void backends_close(struct backends *set);

#endif
