/* capacity.c: how many slots the hosts have for an elastic job, as a script or a hostfile says while it runs.
 */
#include "config.h"

#include "tools/hvdrun/capacity.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "options/parse.h"
#include "tools/hvdrun/site/host_script.h"
#include "tools/hvdrun/launcher/hosts.h"

#define EVERY_US INT64_C(1000000) /* between two looks */
#define SCRIPT_S 10               /* for one run of the script */

struct capacity {
    const struct hvdrun_options *options;
    const struct job_signals *signals;
    char here[HOST_NAME_BYTES];
    const struct host_list *slurm; /* as in capacity_hosts */
    struct host_list hosts;        /* that have the slots */
    struct host_script script;
    int64_t look_us; /* when the script or file is due; CAPACITY_NEVER: the slots stay as they are */
    int slots;       /* -1: nothing has named them yet */
    struct hvd_error complaint; /* of the last look; "": none */
};

/* ---- Answers ------------------------------------------------------------------------------------ */

static const char *source_name(const struct capacity *capacity)
{
    return capacity->options->discovery != NULL ? "--host-discovery" : "--hostfile";
}

static void complain(struct capacity *capacity, const struct hvd_error *why)
{
    bool same = strcmp(capacity->complaint.text, why->text) == 0;
    capacity->complaint = *why;
    if (capacity->slots >= 0 && !same)
        fprintf(stderr, "hvdrun: %s: %s; the job keeps the %d slot%s that it has\n", source_name(capacity),
                why->text, capacity->slots, capacity->slots == 1 ? "" : "s");
}

static int check_is_here(const struct capacity *capacity, const struct host_list *list, struct hvd_error *err)
{
    const char *elsewhere = host_list_elsewhere(list, capacity->here);
    if (elsewhere == NULL)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "%.100s is another machine, and without agents a job grows and shrinks on this one "
                     "only; in a job of Slurm give --launcher=agents",
                     elsewhere);
}

static int check_is_in_job(const struct capacity *capacity, const struct host_list *list,
                           struct hvd_error *err)
{
    for (int i = 0; i < list->count; i++)
        if (host_list_find(capacity->slurm, list->hosts[i].name) == NULL)
            return error_set(err, HVD_ERR_INVALID,
                             "%.100s is no node of this Slurm job; expected names as in SLURM_JOB_NODELIST, "
                             "such as %.100s",
                             list->hosts[i].name, capacity->slurm->hosts[0].name);
    return HVD_OK;
}

/* Takes the hosts if they may have ranks. */
static int count_slots(struct capacity *capacity, struct host_list *list, struct hvd_error *err)
{
    int status =
        capacity->slurm != NULL ? check_is_in_job(capacity, list, err) : check_is_here(capacity, list, err);
    if (status != HVD_OK)
        return status;
    capacity->slots = host_list_slots(list);
    capacity->complaint.text[0] = 0;
    host_list_free(&capacity->hosts);
    capacity->hosts = *list;
    *list = (struct host_list){NULL, 0, 0};
    return HVD_OK;
}

/* [rc]: whether the hosts of [list] could be read; if not, [why] says it. */
static void take_hosts(struct capacity *capacity, struct host_list *list, int rc, struct hvd_error *why)
{
    if (rc == HVD_OK)
        rc = count_slots(capacity, list, why);
    if (rc != HVD_OK)
        complain(capacity, why);
    host_list_free(list);
}

static void take_script(struct capacity *capacity)
{
    struct host_list list = {NULL, 0, 0};
    struct hvd_error why = {""};
    const char *command = capacity->options->discovery;
    int rc = capacity->script.problem[0] != 0
                 ? error_set(&why, HVD_ERR_INVALID, "'%.200s' %s", command, capacity->script.problem)
                 : host_list_parse_file(&list, command, capacity->script.text,
                                        capacity->options->slots_per_host, &why);
    take_hosts(capacity, &list, rc, &why);
}

static void look_at_file(struct capacity *capacity)
{
    struct host_list list = {NULL, 0, 0};
    struct hvd_error why = {""};
    const struct hvdrun_options *options = capacity->options;
    int rc = host_list_read(&list, options->values[LAUNCH_HOSTFILE], options->slots_per_host, &why);
    take_hosts(capacity, &list, rc, &why);
}

static void look_at_list(struct capacity *capacity)
{
    struct host_list list = {NULL, 0, 0};
    struct hvd_error why = {""};
    int rc = host_list_parse(&list, "-H", capacity->options->values[LAUNCH_HOSTS], &why);
    take_hosts(capacity, &list, rc, &why);
}

/* ---- Looks -------------------------------------------------------------------------------------- */

int capacity_fd(const struct capacity *capacity)
{
    return capacity == NULL ? -1 : host_script_fd(&capacity->script);
}

int64_t capacity_look_us(const struct capacity *capacity)
{
    if (capacity == NULL)
        return CAPACITY_NEVER;
    return capacity->script.pid != 0 ? host_script_look_us(&capacity->script) : capacity->look_us;
}

static void begin_look(struct capacity *capacity)
{
    struct hvd_error why = {""};
    const char *command = capacity->options->discovery;
    capacity->look_us = clock_us() + EVERY_US;
    if (command == NULL)
        look_at_file(capacity);
    else if (host_script_start(&capacity->script, command, &capacity->signals->original, &why) != HVD_OK)
        complain(capacity, &why);
}

void capacity_work(struct capacity *capacity)
{
    if (capacity == NULL)
        return;
    if (host_script_work(&capacity->script))
        take_script(capacity);
    if (capacity->script.pid == 0 && clock_us() >= capacity->look_us)
        begin_look(capacity);
}

int capacity_slots(const struct capacity *capacity)
{
    return capacity == NULL ? INT_MAX : capacity->slots;
}

bool capacity_changes(const struct capacity *capacity)
{
    return capacity != NULL && capacity->look_us != CAPACITY_NEVER;
}

const struct host_list *capacity_hosts(const struct capacity *capacity)
{
    return capacity->slots < 0 ? NULL : &capacity->hosts;
}

const char *capacity_complaint(const struct capacity *capacity)
{
    return capacity == NULL ? "" : capacity->complaint.text;
}

/* ---- Begin and end ------------------------------------------------------------------------------ */

int capacity_open(struct capacity **capacityp, const struct hvdrun_options *options,
                  const struct capacity_hosts *hosts, const struct job_signals *signals,
                  struct hvd_error *err)
{
    if (options->discovery == NULL && options->values[LAUNCH_HOSTFILE] == NULL &&
        options->values[LAUNCH_HOSTS] == NULL)
        return HVD_OK;
    struct capacity *capacity = calloc(1, sizeof(*capacity));
    if (capacity == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of hosts");
    capacity->options = options;
    capacity->signals = signals;
    capacity->slots = -1;
    capacity->script.limit_s = SCRIPT_S;
    capacity->slurm = hosts->slurm;
    snprintf(capacity->here, sizeof(capacity->here), "%s", hosts->here);
    if (options->values[LAUNCH_HOSTS] != NULL) {
        capacity->look_us = CAPACITY_NEVER;
        look_at_list(capacity);
    }
    *capacityp = capacity;
    return HVD_OK;
}

void capacity_close(struct capacity *capacity)
{
    if (capacity == NULL)
        return;
    host_script_end(&capacity->script);
    host_list_free(&capacity->hosts);
    free(capacity);
}

/* ---- The wait at the start ---------------------------------------------------------------------- */

static void say_that_it_waits(const struct capacity *capacity, int needed, const char *limit)
{
    fprintf(stderr,
            "hvdrun: the job begins with %d ranks, but the hosts have %d slot%s; waiting up to %s for more "
            "(--elastic-timeout)\n",
            needed, capacity->slots, capacity->slots == 1 ? "" : "s", limit);
}

/* Sleep until there is something to do. Returns 0, or the signal that asks hvdrun to end. */
static int sleep_until_look(const struct capacity *capacity, int64_t deadline_us)
{
    int64_t look_us = capacity_look_us(capacity);
    struct pollfd fds[] = {{.fd = capacity_fd(capacity), .events = POLLIN},
                           {.fd = capacity->signals->fd, .events = POLLIN}};
    poll(fds, 2, clock_ms_until(look_us < deadline_us ? look_us : deadline_us));
    return fds[1].revents != 0 ? job_signals_sleep(capacity->signals, clock_us() + 1) : 0;
}

int capacity_await(struct capacity *capacity, int needed, int *signalp, struct hvd_error *err)
{
    char limit[32];
    bool said = false;
    if (capacity == NULL)
        return HVD_OK;
    int64_t timeout_us = capacity->options->elastic_timeout_us;
    int64_t deadline_us = clock_us() + timeout_us;
    format_time(timeout_us, limit, sizeof(limit));
    for (*signalp = 0; *signalp == 0;) {
        capacity_work(capacity);
        bool silent = capacity->slots < 0;
        if (silent && capacity->complaint.text[0] != 0)
            return error_set(err, HVD_ERR_INVALID, "%s: %s", source_name(capacity), capacity->complaint.text);
        if (capacity->slots >= needed || !capacity_changes(capacity))
            return HVD_OK;
        if (!silent && clock_us() >= deadline_us)
            return error_set(
                err, HVD_ERR_TIMEOUT,
                "the job begins with %d ranks, but the hosts have had no more than %d slot%s for %s "
                "(--elastic-timeout)",
                needed, capacity->slots, capacity->slots == 1 ? "" : "s", limit);
        if (!silent && !said)
            say_that_it_waits(capacity, needed, limit);
        said = !silent;
        *signalp = sleep_until_look(capacity, silent ? CAPACITY_NEVER : deadline_us);
    }
    return error_set(err, HVD_ERR_SHUTDOWN, "interrupted by signal %d (%s) before the job began", *signalp,
                     strsignal(*signalp));
}
