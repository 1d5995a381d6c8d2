/* health_check.h: ask the command of --health-check whether ranks may run on this machine.
 *
 * site/ promises hvdrun that a command of the site ends in time, and with hvdrun: host_script.c is one run of
 * any of them, health_check.c judges that of --health-check. */
#ifndef TOOLS_HVDRUN_SITE_HEALTH_CHECK_H
#define TOOLS_HVDRUN_SITE_HEALTH_CHECK_H

#include "base/status.h"
#include "tools/hvdrun/job_signals.h"

/* Run [command] by the shell, up to a minute; NULL is a check that all machines pass. Returns HVD_OK if it
 * exits with 0, HVD_ERR_STATE if it refuses this machine, HVD_ERR_SHUTDOWN if *signalp has ended the wait, or
 * that it could not be run; all with a sentence, which has the first line that the command has printed. */
int health_check(const char *command, const struct job_signals *signals, int *signalp, struct hvd_error *err);

#endif
