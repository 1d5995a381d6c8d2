/* epoch_server.h: the launcher's end of wire-up by epochs: processes that have lost a rank, and newcomers,
 * ask here for their place in the next epoch (epochs.c). It has the driver, which decides, and its sockets.
 * One thread; never blocks. */
#ifndef PMIX_SHIM_EPOCH_SERVER_H
#define PMIX_SHIM_EPOCH_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"

struct epoch_server;
struct secure_channel;

/* An elastic job. */
struct elastic_job {
    int slots;          /* processes that it may have */
    int members;        /* of them those of the start, in the first slots */
    int fewest;         /* fewer make no epoch */
    int spares;         /* so many wait while no other is lost */
    uint32_t start;     /* HVD_EPOCH of the processes */
    const char *secret; /* that they hold */
    bool sees_no_ends;  /* its host does not call epoch_server_lose: a process whose connection ends has ended
                         */
    bool all_ask;       /* for their place in the first epoch too; else the processes are its members */
    bool limits_waits; /* its host ends the job when too few have waited too long for newcomers: a process has
                          no limit of its own for that */
    bool has_agents;   /* agents of hvdrun connect here too: epoch_server_take_agent */
    const int *listener; /* listen there; NULL: at a port that the kernel chooses */
    const struct hvd_log *log;
};

/* Listen for the processes of the job, which is copied; its log and listener must outlive the server. */
int epoch_server_open(struct epoch_server **serverp, const struct elastic_job *elastic_job,
                      struct hvd_error *err);
void epoch_server_close(struct epoch_server *server); /* NULL is fine */

/* Where it listens; 0 of NULL. */
uint16_t epoch_server_port(const struct epoch_server *server);

/* This descriptor is readable when epoch_server_work has something to do, which it also has after
 * epoch_server_lose; -1 of NULL, with which epoch_server_work does nothing. */
int epoch_server_fd(const struct epoch_server *server);
void epoch_server_work(struct epoch_server *server);

/* An agent that has connected and proved itself: its connection is the caller's then. False: there is none.
 */
#define EPOCH_AGENT_BYTES 80
bool epoch_server_take_agent(struct epoch_server *server, struct secure_channel *channel,
                             char from[EPOCH_AGENT_BYTES]);

/* The process of [slot] has ended. */
void epoch_server_lose(struct epoch_server *server, int slot);

/* The process of a member that is silent, as is its node, and that must be ended, or lost; -1: there is none
 * now. When may there be one? In the time of clock_us; INT64_MAX: nobody is silent. */
int epoch_server_take_silent(struct epoch_server *server);
int64_t epoch_server_silent_us(const struct epoch_server *server);

/* As epoch_driver.h says: a newcomer will come in a slot that is empty or whose process has ended, as its
 * connection does here; the process of a slot has no place in the next epoch; more newcomers may come than
 * are expected; none is needed any more. */
void epoch_server_expect(struct epoch_server *server, int slot);
void epoch_server_dismiss(struct epoch_server *server, int slot, bool leaves);
void epoch_server_hope(struct epoch_server *server, bool hopes);
void epoch_server_finish(struct epoch_server *server);

/* [holds]: members need not hear yet that newcomers wait, as others are on their way to join with them. */
void epoch_server_hold_news(struct epoch_server *server, bool holds);

/* How long the last epoch took to form: from the first process that asked for it, of those that had to, to
 * its beginning. */
int64_t epoch_server_rendezvous_us(const struct epoch_server *server);

/* The number of the last epoch; and was it the last one, as too few are left for another? */
uint32_t epoch_server_epoch(const struct epoch_server *server);
bool epoch_server_has_refused(const struct epoch_server *server);

/* How many processes are left, newcomers too, and is that of [slot], or has it not asked yet? How many of
 * them are in the epoch, and is it? */
int epoch_server_left(const struct epoch_server *server);
bool epoch_server_has(const struct epoch_server *server, int slot);
bool epoch_server_is_on_its_way(const struct epoch_server *server, int slot);
int epoch_server_members(const struct epoch_server *server);
bool epoch_server_is_member(const struct epoch_server *server, int slot);

#endif
