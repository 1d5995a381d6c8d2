/* messages.h: what hvdrun and its agents, one on each of several nodes, tell each other: messages of the
 * fence (pmix_shim/env_fence.h), on a connection that both ends have proved.
 *
 * agent/ promises hvdrun that ranks on other nodes are started, signalled, ended and reported as those of
 * this machine are. Its parts: agents_job.c is the job as a list of steps, agent_hosts.c knows which hosts
 * there are, agent_steps.c is the srun that starts agents there, seats.c says which slot of the job is on
 * which host, agents.c is hvdrun's end of the connections, agent.c the other one, and streams.c reads there
 * what ranks write. */
#ifndef TOOLS_HVDRUN_AGENT_MESSAGES_H
#define TOOLS_HVDRUN_AGENT_MESSAGES_H

#include "base/launch_variables.h"
#include "pmix_shim/env_fence.h"
#include "tools/hvdrun/launcher/hosts.h"
#include "tools/hvdrun/starter.h"

#define AGENT_ALL           UINT32_MAX /* ranks; or no rank */
#define AGENT_MESSAGE_BYTES 4096       /* of the bytes of a message, without its header */

enum agent_message_kind {
    AGENT_HELLO = 32, /* from an agent; number: slots that it offers, 0: as many as hvdrun knows; its host and
                         version follow */
    AGENT_WELCOME,    /* number: slots of the job; rank: slots of the agent */
    AGENT_START,      /* rank: to start; its place follows */
    AGENT_SIGNAL,     /* number: a signal; rank: for this one, or AGENT_ALL */
    AGENT_END,        /* number: a signal; rank: the one that failed first, or AGENT_ALL */
    AGENT_KILL,
    AGENT_TAKEN,  /* number: so many bytes of output have been taken */
    AGENT_BEAT,   /* does the agent run? It sends the same back */
    AGENT_REPORT, /* from an agent: what happened to a rank follows */
    AGENT_EMPTY,  /* from an agent: no process of the job is left there */
    AGENT_UNFIT,  /* from an agent, in place of HELLO: its host, which is refused, and why follow */
    AGENT_OUTPUT  /* from an agent; rank: whose; number: 0 stdout, 1 stderr; bytes follow, none at its end */
};

/* Output that an agent has sent and hvdrun has not taken yet, at most. */
#define AGENT_WINDOW_BYTES (256 * 1024)

/* What an agent says of itself. */
struct agent_hello {
    char host[HOST_NAME_BYTES];
    char version[32]; /* of its hvd */
};

/* What an agent reports. */
struct agent_report {
    struct starter_report report;
    struct verdict_facts facts;
    char crash[CRASH_TEXT_BYTES];
};

/* Write into [bytes] what follows the header. Returns its length. */
size_t agent_start_encode(const struct starter_rank *rank, const struct launch_place *place,
                          unsigned char bytes[AGENT_MESSAGE_BYTES]);
size_t agent_report_encode(const struct agent_report *report, unsigned char bytes[AGENT_MESSAGE_BYTES]);
size_t agent_hello_encode(const struct agent_hello *hello, unsigned char bytes[AGENT_MESSAGE_BYTES]);
size_t agent_unfit_encode(const char *host, const struct hvd_error *why,
                          unsigned char bytes[AGENT_MESSAGE_BYTES]);

/* False if the message says what no agent and no hvdrun would, of a job of [slots]. */
bool agent_start_decode(const struct fence_message *message, int slots, struct starter_rank *rank,
                        struct launch_place *place);
bool agent_report_decode(const struct fence_message *message, int slots, struct agent_report *report);
bool agent_hello_decode(const struct fence_message *message, struct agent_hello *hello);
bool agent_unfit_decode(const struct fence_message *message, char host[HOST_NAME_BYTES],
                        struct hvd_error *why);

#endif
