/* agent_hosts.h: the hosts of a job of agents: which have an agent, and which are to get one by srun. Hosts
 * come with the Slurm job, by a list that changes, or by --join; they go when their agent is lost. */
#ifndef TOOLS_HVDRUN_AGENT_AGENT_HOSTS_H
#define TOOLS_HVDRUN_AGENT_AGENT_HOSTS_H

#include "tools/hvdrun/agent/agent_steps.h"
#include "tools/hvdrun/agent/seats.h"
#include "tools/hvdrun/capacity.h"
#include "tools/hvdrun/cooldown.h"
#include "tools/hvdrun/events/events.h"

/* What they work with. The pointers must stay valid until agent_hosts_close. */
struct agent_hosts_plan {
    int slots; /* of the job */
    struct agent_launch launch;
    const struct host_list *allocation; /* the hosts of the Slurm job */
    const struct capacity *capacity;    /* says which of them may be used; NULL: all */
    struct cooldown_range cooldown;     /* for which a host is left out after failures */
    struct launch_events *events;
};

struct agent_hosts {
    struct agent_hosts_plan plan;
    struct seats seats;       /* of which [hosts] are the hosts */
    struct agent_host *hosts; /* [seats.host_count] */
    struct agent_steps steps;
    int epoll_fd; /* gets a descriptor of each step; not owned */
    bool changed; /* which hosts there are, or their places; the caller clears it */
    bool ending;  /* the job ends: hosts are lost in silence */
};

int agent_hosts_open(struct agent_hosts *hosts, const struct agent_hosts_plan *plan, int epoll_fd,
                     struct hvd_error *err);
void agent_hosts_close(struct agent_hosts *hosts); /* ends what has started the agents */

/* Look which hosts there are, start agents there, to connect at [port] of this machine, and give up those
 * that do not come any more. Then: are others to come? */
void agent_hosts_look(struct agent_hosts *hosts, uint16_t port);
bool agent_hosts_are_coming(const struct agent_hosts *hosts);

/* The agent of a host of this name has come. Returns the host, or -1 with a sentence why it is refused. A
 * guest comes by itself, and offers [places]. */
int agent_hosts_admit(struct agent_hosts *hosts, const char *name, struct hvd_error *why);
int agent_hosts_admit_guest(struct agent_hosts *hosts, const char *name, int places, struct hvd_error *why);

/* [rank] has failed on a host: no other rank is to be started there for a while, if --host-cooldown says so.
 * True if none is. */
bool agent_hosts_fail(struct agent_hosts *hosts, int host, int rank);

/* When the first host that is left out for a time returns, as agent_hosts_look finds; CAPACITY_NEVER: none
 * does. */
int64_t agent_hosts_return_us(const struct agent_hosts *hosts);

/* The agent of a host is lost: say so, unless it was lost before. */
void agent_hosts_lose(struct agent_hosts *hosts, int host, const char *why);

/* The agent that was started on host [name] says that it has no slots, for [why]: say so, and leave it out as
 * one that is lost. False if no agent is expected from there. */
bool agent_hosts_refuse(struct agent_hosts *hosts, const char *name, const char *why);

bool agent_hosts_is_up(const struct agent_hosts *hosts, int host);
const char *agent_hosts_name(const struct agent_hosts *hosts, int host);

#endif
