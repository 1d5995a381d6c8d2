/* agent_hosts.c: the hosts of a job of agents. */
#include "config.h"
#include "tools/hvdrun/agent/agent_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "options/parse.h"

struct agent_host {
    enum {
        HOST_ABSENT,
        HOST_STARTING, /* its agent, by srun */
        HOST_UP,
        HOST_LOST /* it is left out, for the cooldown, or unless the list drops it and names it again */
    } state;
    struct cooldown cooldown;
    bool is_guest; /* it has come by --join, whatever the list says */
};

int agent_hosts_open(struct agent_hosts *hosts, const struct agent_hosts_plan *plan, int epoll_fd,
                     struct hvd_error *err)
{
    *hosts = (struct agent_hosts){.plan = *plan, .epoll_fd = epoll_fd};
    agent_steps_begin(&hosts->steps, &plan->launch);
    return seats_init(&hosts->seats, plan->slots, err);
}

void agent_hosts_close(struct agent_hosts *hosts)
{
    agent_steps_end(&hosts->steps);
    seats_fini(&hosts->seats);
    free(hosts->hosts);
    hosts->hosts = NULL;
}

const char *agent_hosts_name(const struct agent_hosts *hosts, int host)
{
    return hosts->seats.hosts[host].name;
}

bool agent_hosts_is_up(const struct agent_hosts *hosts, int host)
{
    return hosts->hosts[host].state == HOST_UP;
}

static void set_state(struct agent_hosts *hosts, int host, int state)
{
    hosts->hosts[host].state = state;
    hosts->seats.hosts[host].up = state == HOST_UP;
    hosts->changed = true;
}

static void set_places(struct agent_hosts *hosts, int host, int places)
{
    struct seat_host *seat_host = &hosts->seats.hosts[host];
    hosts->changed = hosts->changed || seat_host->places != places;
    seat_host->places = places;
}

/* ---- Hosts that are left out ---------------------------------------------------------------------- */

struct period {
    char text[40];
};

/* " for 10s", or "" of a host that does not return by itself. */
static struct period period_of(const struct cooldown *cooldown)
{
    struct period period = {""};
    char time[32];
    if (cooldown->until_us == 0)
        return period;
    format_time(cooldown->time_us, time, sizeof(time));
    snprintf(period.text, sizeof(period.text), " for %s", time);
    return period;
}

/* For how long? The agents of guests come again by themselves. */
static struct period leave_out(struct agent_hosts *hosts, int host, const char *why)
{
    struct cooldown *cooldown = &hosts->hosts[host].cooldown;
    if (!hosts->hosts[host].is_guest || hosts->hosts[host].state == HOST_UP)
        cooldown_begin(cooldown, &hosts->plan.cooldown, clock_us());
    launch_events_host_left_out(hosts->plan.events, agent_hosts_name(hosts, host),
                                cooldown->until_us == 0 ? 0 : cooldown->time_us, why);
    return period_of(cooldown);
}

void agent_hosts_lose(struct agent_hosts *hosts, int host, const char *why)
{
    if (hosts->hosts[host].state == HOST_LOST)
        return;
    set_state(hosts, host, HOST_LOST);
    if (hosts->ending)
        return;
    char reason[256];
    snprintf(reason, sizeof(reason), "its agent is lost: %s", why);
    struct period period = leave_out(hosts, host, reason);
    fprintf(stderr, "hvdrun: the agent of %s is lost: %s; the job goes on without this host%s\n",
            agent_hosts_name(hosts, host), why, period.text);
}

bool agent_hosts_refuse(struct agent_hosts *hosts, const char *name, const char *why)
{
    int host = seats_find_host(&hosts->seats, name);
    if (host < 0 || hosts->hosts[host].state != HOST_STARTING)
        return false;
    set_state(hosts, host, HOST_LOST);
    struct period period = leave_out(hosts, host, why);
    fprintf(stderr, "hvdrun: %s is left out%s: %s\n", name, period.text, why);
    return true;
}

bool agent_hosts_fail(struct agent_hosts *hosts, int host, int rank)
{
    char why[64];
    bool *rests = &hosts->seats.hosts[host].rests;
    if (hosts->plan.cooldown.low_us == 0)
        return false;
    if (*rests)
        return true;
    *rests = hosts->changed = true;
    snprintf(why, sizeof(why), "rank %d on it has failed", rank);
    struct period period = leave_out(hosts, host, why);
    fprintf(stderr, "hvdrun: %s is left out%s: %s\n", agent_hosts_name(hosts, host), period.text, why);
    return true;
}

/* The agent of a host that has lost it is started anew. */
static void take_back(struct agent_hosts *hosts)
{
    for (int host = 0; host < hosts->seats.host_count; host++) {
        struct agent_host *back = &hosts->hosts[host];
        if (!cooldown_ends(&back->cooldown, clock_us()))
            continue;
        hosts->seats.hosts[host].rests = false;
        hosts->changed = true;
        if (back->state == HOST_LOST && !back->is_guest)
            set_state(hosts, host, HOST_ABSENT);
        launch_events_host_returned(hosts->plan.events, agent_hosts_name(hosts, host));
    }
}

int64_t agent_hosts_return_us(const struct agent_hosts *hosts)
{
    int64_t first_us = CAPACITY_NEVER;
    for (int host = 0; host < hosts->seats.host_count; host++) {
        int64_t until_us = hosts->hosts[host].cooldown.until_us;
        first_us = until_us != 0 && until_us < first_us ? until_us : first_us;
    }
    return first_us;
}

/* ---- The list ----------------------------------------------------------------------------------- */

/* Returns the index of a host, which is added if it is new; -1: no memory. */
static int add_host(struct agent_hosts *hosts, const char *name)
{
    int host = seats_find_host(&hosts->seats, name);
    if (host >= 0)
        return host;
    size_t bytes = ((size_t)hosts->seats.host_count + 1) * sizeof(*hosts->hosts);
    struct agent_host *more = realloc(hosts->hosts, bytes);
    if (more == NULL)
        return -1;
    hosts->hosts = more;
    host = seats_add_host(&hosts->seats, name);
    if (host >= 0)
        hosts->hosts[host] = (struct agent_host){.state = HOST_ABSENT};
    return host;
}

/* A host that the list drops keeps its agent, which has nothing to do then. */
static void take_list(struct agent_hosts *hosts, const struct host_list *list)
{
    for (int i = 0; i < list->count; i++)
        add_host(hosts, list->hosts[i].name);
    for (int host = 0; host < hosts->seats.host_count; host++) {
        const struct host *listed = host_list_find(list, agent_hosts_name(hosts, host));
        int places = listed == NULL ? 0 : listed->slots;
        if (hosts->hosts[host].is_guest)
            continue;
        set_places(hosts, host, places);
        if (places == 0 && hosts->hosts[host].state == HOST_LOST)
            set_state(hosts, host, HOST_ABSENT);
    }
}

static void read_list(struct agent_hosts *hosts)
{
    const struct agent_hosts_plan *plan = &hosts->plan;
    const struct host_list *list = plan->capacity != NULL ? capacity_hosts(plan->capacity) : plan->allocation;
    if (list != NULL)
        take_list(hosts, list);
}

/* ---- Agents that start ---------------------------------------------------------------------------- */

static void lose_all(struct agent_hosts *hosts, const struct host_list *list, const char *why)
{
    for (int i = 0; i < list->count; i++) {
        int host = seats_find_host(&hosts->seats, list->hosts[i].name);
        if (hosts->hosts[host].state == HOST_STARTING)
            agent_hosts_lose(hosts, host, why);
    }
}

static void start_agents(struct agent_hosts *hosts, uint16_t port)
{
    struct host_list list = {NULL, 0, 0};
    struct hvd_error why = {""};
    for (int host = 0; host < hosts->seats.host_count; host++) {
        if (hosts->hosts[host].state != HOST_ABSENT || hosts->seats.hosts[host].places == 0)
            continue;
        if (host_list_add(&list, agent_hosts_name(hosts, host), 1, &why) == HVD_OK)
            set_state(hosts, host, HOST_STARTING);
    }
    if (list.count == 0)
        return;
    struct epoll_event event = {.events = EPOLLIN};
    int fd = agent_steps_start(&hosts->steps, &list, port, &why);
    if (fd < 0)
        lose_all(hosts, &list, why.text);
    else
        epoll_ctl(hosts->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    host_list_free(&list);
}

/* srun has ended: agents that have not come by then do not come any more. */
static void look_at_steps(struct agent_hosts *hosts)
{
    struct host_list list = {NULL, 0, 0};
    char why[128];
    while (agent_steps_ended(&hosts->steps, &list, why, sizeof(why))) {
        lose_all(hosts, &list, why);
        host_list_free(&list);
    }
}

void agent_hosts_look(struct agent_hosts *hosts, uint16_t port)
{
    take_back(hosts);
    read_list(hosts);
    start_agents(hosts, port);
    look_at_steps(hosts);
}

bool agent_hosts_are_coming(const struct agent_hosts *hosts)
{
    for (int host = 0; host < hosts->seats.host_count; host++)
        if (hosts->hosts[host].state == HOST_STARTING)
            return true;
    return false;
}

/* ---- Agents that come ----------------------------------------------------------------------------- */

int agent_hosts_admit(struct agent_hosts *hosts, const char *name, struct hvd_error *why)
{
    int host = seats_find_host(&hosts->seats, name);
    if (host < 0 || hosts->hosts[host].state != HOST_STARTING) {
        error_set(why, HVD_ERR_INVALID, "none is expected from %s", name);
        return -1;
    }
    set_state(hosts, host, HOST_UP);
    return host;
}

int agent_hosts_admit_guest(struct agent_hosts *hosts, const char *name, int places, struct hvd_error *why)
{
    int host = add_host(hosts, name);
    if (host < 0) {
        error_set(why, HVD_ERR_NO_MEMORY, "hvdrun has no memory for another host");
        return -1;
    }
    struct agent_host *guest = &hosts->hosts[host];
    if (guest->state == HOST_STARTING || guest->state == HOST_UP) {
        error_set(why, HVD_ERR_INVALID, "the job has an agent on %s already; start one on another host",
                  name);
        return -1;
    }
    guest->is_guest = true;
    set_places(hosts, host, places);
    set_state(hosts, host, HOST_UP);
    fprintf(stderr, "hvdrun: %s joins with %d slot%s\n", name, places, places == 1 ? "" : "s");
    return host;
}
