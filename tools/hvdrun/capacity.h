/* capacity.h: how many slots the hosts have for an elastic job, as a script or a hostfile says while it runs.
 * Other hosts than this machine, or those of the Slurm job where agents start the ranks, are refused. */
#ifndef TOOLS_HVDRUN_CAPACITY_H
#define TOOLS_HVDRUN_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/hvdrun/job_signals.h"
#include "tools/hvdrun/launcher/hosts.h"
#include "tools/hvdrun/options.h"

#define CAPACITY_NEVER INT64_MAX

struct capacity;

/* On which hosts ranks may be. */
struct capacity_hosts {
    const char *here;              /* this machine's name */
    const struct host_list *slurm; /* the nodes of the job, on which agents start them; NULL: here only */
};

/* Look at what [options] name: the script, the hostfile, or the hosts of -H, whose slots stay; *capacityp
 * stays NULL if they name none of them. [options] must outlive it. */
int capacity_open(struct capacity **capacityp, const struct hvdrun_options *options,
                  const struct capacity_hosts *hosts, const struct job_signals *signals,
                  struct hvd_error *err);
void capacity_close(struct capacity *capacity); /* NULL is fine, here and below */

/* Wait until there are [needed] slots, as long as --elastic-timeout says. Returns HVD_OK; HVD_ERR_INVALID if
 * nothing names slots, HVD_ERR_TIMEOUT, or HVD_ERR_SHUTDOWN if *signalp has ended the wait; all with a
 * sentence.
 */
int capacity_await(struct capacity *capacity, int needed, int *signalp, struct hvd_error *err);

/* This descriptor is readable when capacity_work has something to do, which it also has at a certain time; -1
 * and CAPACITY_NEVER if there is nothing to wait for. */
int capacity_fd(const struct capacity *capacity);
int64_t capacity_look_us(const struct capacity *capacity);

/* Look again if it is time to. A script or file that does not say what it should is complained of in a line,
 * once, and what it said before stays. Never blocks. */
void capacity_work(struct capacity *capacity);

/* The slots that there are; may they change? */
int capacity_slots(const struct capacity *capacity);
bool capacity_changes(const struct capacity *capacity);

/* The hosts that have them; NULL: nothing has named any yet. And why not, "" if there is no complaint. */
const struct host_list *capacity_hosts(const struct capacity *capacity);
const char *capacity_complaint(const struct capacity *capacity);

#endif
