/* backends.h: the planes of one rank: which it has, in which order it likes them, which are open. */
#ifndef BACKEND_BACKENDS_H
#define BACKEND_BACKENDS_H

#include "backend/backend.h"

/* The members of one process set, and what each plane keeps for them. */
struct team {
    struct plane_team members; /* its list is owned here */
    bool added[PLANE_COUNT];
    bool refused[PLANE_COUNT]; /* there was no room for it */
    bool given_up[PLANE_COUNT];
    bool used[PLANE_COUNT]; /* by a batch */
    void *state[PLANE_COUNT];
    uint64_t sequence; /* of its last batch */
};

struct plane_set {
    struct plane_env env;
    int order[PLANE_COUNT]; /* enum plane_id, best first; -1 where there are no more. Equal on all ranks;
                               local is always among them, for teams of one */
    bool available[PLANE_COUNT];
    bool opened[PLANE_COUNT];
    bool opened_late[PLANE_COUNT]; /* those that have an open_late */
    bool used[PLANE_COUNT];        /* by a batch */
    void *state[PLANE_COUNT];
};

/* Find out which planes of the option there are, and open those that open early. [env] is copied.
 * HVD_ERR_UNSUPPORTED where none is left, with each one's reason. */
int plane_set_open(struct plane_set *set, const struct plane_env *env, int64_t deadline_us,
                   struct hvd_error *err);

/* Bits 1 << enum plane_id of those that can carry it in teams with such an [each], see plane_team. */
uint32_t plane_set_can(const struct plane_set *set, const struct plane_need *need, int each);

/* Bits of those that are available here: what a new process set may use. */
uint32_t plane_set_available(const struct plane_set *set);

/* All ranks of the job call it when a process set is made, with the planes that all of them have: opens them.
 */
int plane_set_open_all(struct plane_set *set, uint32_t planes, struct hvd_error *err);

/* Those of [planes] that can carry between [members]; the same on all ranks of the job, members or not. */
uint32_t plane_set_serving(const struct plane_set *set, const struct plane_team *members, uint32_t planes);

/* What plane_team.each is for [members]; the same on all ranks of the job. */
int plane_set_each(const struct plane_set *set, const struct plane_team *members);

/* Make the team of [members] (its list is copied; ranks ascending), in all planes that are open and have room
 * for it; the members of it call it. NULL is fine for destroying. */
int team_create(struct plane_set *set, const struct plane_team *members, struct team **teamp,
                struct hvd_error *err);
void team_destroy(struct plane_set *set, struct team *team);

/* Those of [planes] that had room for it, or have not been asked yet. */
uint32_t team_planes(const struct team *team, uint32_t planes);

/* May plane_set_start block with this batch, until the other members have come to it too? */
bool plane_set_blocks(const struct team *team, int plane, const struct plane_batch *batch);

/* plane_ops of an agreed plane; for the team of all ranks start opens it first where this is its first batch.
 * The batch gets its sequence here. */
int plane_set_start(struct plane_set *set, struct team *team, int plane, struct plane_batch *batch,
                    struct hvd_error *err);
int plane_set_test(struct plane_set *set, struct team *team, int plane, bool *movedp, int *rankp,
                   struct hvd_error *err);

/* plane_ops.arm of all that are open. */
void plane_set_arm(struct plane_set *set, bool armed);

/* Give up the running batch of [team] in [plane]: it touches no memory any more, and can carry no other. */
void plane_set_give_up(struct plane_set *set, struct team *team, int plane);

void plane_set_after_fork(struct plane_set *set);
/* All teams were destroyed. A zeroed one is fine. */
void plane_set_close(struct plane_set *set);

#endif
