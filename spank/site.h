/* site.h: what the administrator set: the arguments of our line in plugstack.conf. */
#ifndef SPANK_SITE_H
#define SPANK_SITE_H

#include <stdbool.h>

#include "options/config.h"

/* The ports of srun's plugstack.conf, for the nodes of its step: these must choose the same one. */
#define SITE_PORTS_VARIABLE "SLURM_HVD_PORTS"
#define SITE_PORTS_BYTES    32

struct site {
    bool keep_mpi;  /* mpi=keep: leave the MPI type of steps alone */
    bool keep_kill; /* kill=keep: a task that fails early does not end the step, unless Slurm does */
    bool record;    /* record=comment: write into the job's comment what its steps use */
    bool all_steps; /* steps=all: all steps use hvd, unless --hvd=off says otherwise */
    int first_port, port_count; /* ports=FIRST-LAST: where MASTER_PORT is chosen; 0: hvd's range */
    char topology[OPTION_VALUE_BYTES +
                  1]; /* topology=FILE: this node's topology as hwloc exports it; "": none */
    char epochs[OPTION_VALUE_BYTES + 1]; /* epochs=FILE: the driver of elastic steps; "": the one installed */
    char off[OPTION_VALUE_BYTES + 1];    /* off=FILE: while it exists, the plug-in does nothing; "": none */
    char list[CONFIG_LIST_BYTES + 1]; /* values of options, as HVD_SITE carries them; "" if there are none */
};

/* Read the arguments, each name=value. An invalid one is skipped, because a typo in plugstack.conf must
 * neither fail jobs nor drain nodes; [complain] (may be NULL) is called with one sentence for each. */
void site_read(struct site *site, int argc, char *const argv[], void (*complain)(const char *sentence));

/* Write what the variable says of [site]. False: nothing, as it has hvd's range. */
bool site_describe_ports(const struct site *site, char text[SITE_PORTS_BYTES]);

/* Take the ports that the variable names. Anything else is ignored: it is a task's, and harms only that. */
void site_take_ports(struct site *site, const char *text);

/* Does the file of off=FILE exist? */
bool site_is_off(const struct site *site);

#endif
