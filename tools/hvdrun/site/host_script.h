/* host_script.h: one run of the command that says which hosts there are, or whether this one is healthy,
 * beside the job. Never blocks. */
#ifndef TOOLS_HVDRUN_SITE_HOST_SCRIPT_H
#define TOOLS_HVDRUN_SITE_HOST_SCRIPT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

#define HOST_SCRIPT_BYTES (1 << 20) /* the longest answer */

/* A struct that is zeroed but for [limit_s] has not run yet. */
struct host_script {
    pid_t pid;   /* 0: none runs */
    int fd;      /* its standard output while it runs; -1: it has ended that */
    int limit_s; /* for one run; the caller sets it */
    int64_t limit_us;
    char *text; /* its output so far, of [length] bytes; stays the struct's */
    size_t length;
    char problem[256]; /* of the run that ended last: "exited with status 3"; "": none */
};

/* Run [command] by the shell, with the signal [mask], in a process group of its own, and without the job's
 * secret, which is no business of the site's. It is killed when this process is. */
int host_script_start(struct host_script *script, const char *command, const sigset_t *mask,
                      struct hvd_error *err);

/* Read what it has written, and end it if it has taken too long. Returns true once its run is over: then
 * [text] and [problem] hold what came of it. */
bool host_script_work(struct host_script *script);

/* The descriptor to poll, -1: none; and when host_script_work must be called at the latest. */
int host_script_fd(const struct host_script *script);
int64_t host_script_look_us(const struct host_script *script);

/* Kill it if it still runs, and free the text. */
void host_script_end(struct host_script *script);

#endif
