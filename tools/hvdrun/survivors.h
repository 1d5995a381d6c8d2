/* survivors.h: an elastic job goes on without ranks that failed, as long as enough are left, and starts them
 * again. It grows into empty slots when hosts have more of them, and leaves slots that hosts have no more. */
#ifndef TOOLS_HVDRUN_SURVIVORS_H
#define TOOLS_HVDRUN_SURVIVORS_H

#include "pmix_shim/epoch_server.h"
#include "tools/hvdrun/cooldown.h"
#include "verdict/verdict.h"

#define SURVIVORS_NEVER INT64_MAX

/* What the user wants of an elastic job. */
struct survivors_wish {
    int size;            /* ranks at the start */
    int slots;           /* ranks that it may grow to */
    int fewest;          /* ranks; 0: the job is not elastic */
    int max_restarts;    /* of each rank */
    int64_t timeout_us;  /* how long it waits for ranks that it lacks, and for those that must leave */
    int64_t reset_limit; /* changes of the epoch; 0: no limit */
    int64_t grace_us;    /* from SIGTERM to SIGKILL */
    struct cooldown_range cooldown; /* for which a host is left out after failures */
    bool may_grow;                  /* something may say later that hosts have more slots */
    bool has_agents; /* they start the ranks, on several hosts, which have no first epoch by PMIx */
};

struct survivor_slot;

/* Of one job. The caller zeroes it. */
struct survivors {
    struct survivors_wish wish;
    struct epoch_server *server; /* gives the ranks their places; NULL: the job is not elastic */
    struct survivor_slot *slots;
    bool *room;               /* [slots]: the hosts have it */
    int places;               /* slots that the hosts have */
    int free_places;          /* of them those that no slot of the job is in, on other hosts too */
    int finished;             /* ranks that have done their work: no other one is started again */
    struct cooldown cooldown; /* of this host, where no agents start the ranks */
    int64_t short_us; /* since when there are fewer than wish.fewest; SURVIVORS_NEVER: there are enough */
    uint32_t epoch;   /* that is known */
    bool holds_news;
    struct hvd_log log;
};

/* Begin for ranks that have [environment]. Does nothing if the job is not elastic. */
int survivors_open(struct survivors *survivors, const struct survivors_wish *wish, char *const *environment,
                   struct hvd_error *err);
void survivors_close(struct survivors *survivors);

/* [rank] has ended: enter that into [verdict]. If the job goes on although the rank failed, a line says so,
 * and when the rank will be started again. */
void survivors_enter(struct survivors *survivors, int rank, const struct verdict_end *end,
                     struct verdict *verdict);

/* Call it before survivors_enter: has [rank] failed by itself, and not ended as it was told to? */
bool survivors_see_loss(const struct survivors *survivors, int rank, const struct verdict_end *end);

/* The hosts have [places] slots now: ranks join or leave, and a line says so. They are the first ones; or
 * [room], of as many as there may be, says which, and [free_places] are left. */
void survivors_resize(struct survivors *survivors, int places);
void survivors_fit(struct survivors *survivors, const bool *room, int places, int free_places);

/* The host of a slot is lost or left out, as its rank has failed, which survivors_enter will say; so many
 * places are free then, or will be. */
void survivors_lose_room(struct survivors *survivors, int slot, int free_places);

/* Before any rank is started: only the first [size] ones will be. */
void survivors_begin_with(struct survivors *survivors, int size);

/* Has [slot] a process, or will it, or has its rank failed there for the last time? */
bool survivors_use(const struct survivors *survivors, int slot);

/* Serve ranks that ask for the next epoch, without those that must leave. If the job has lacked ranks too
 * long, or its epochs have changed too often, that is entered into [verdict]. */
void survivors_work(struct survivors *survivors, struct verdict *verdict);

/* When something is due even if nothing happens, SURVIVORS_NEVER if nothing is. */
int64_t survivors_due_us(const struct survivors *survivors);

/* Will a rank be started that has no process now? The rank that must be started now, -1 if none. Is [rank]
 * started after the start of the job, and how often has it been started again, with the start that is due? */
bool survivors_will_start(const struct survivors *survivors);
int survivors_take_start(struct survivors *survivors);
bool survivors_is_newcomer(const struct survivors *survivors, int rank);
int survivors_restarts_of(const struct survivors *survivors, int rank);

/* A rank for which there is no room any more, or that is silent, and the signal that it must get now; -1 if
 * there is none. */
int survivors_take_signal(struct survivors *survivors, int *signalp);

/* Is nobody left but ranks that were started later, and that nobody needs any more? */
bool survivors_are_done(const struct survivors *survivors);

#endif
