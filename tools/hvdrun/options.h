/* options.h: hvdrun's command line. */
#ifndef TOOLS_HVDRUN_OPTIONS_H
#define TOOLS_HVDRUN_OPTIONS_H

#include <stdio.h>

#include "options/config.h"
#include "tools/hvdrun/output.h"
#include "tools/hvdrun/rank_count.h"

struct hvdrun_options {
    enum { HVDRUN_RUN, HVDRUN_HELP, HVDRUN_VERSION } action;
    int ranks;                       /* 1 to HVDRUN_MAX_RANKS; 0: not given */
    const char *erf;                 /* explicit resource file, points into argv; NULL: none */
    int64_t grace_us;                /* from SIGTERM to SIGKILL */
    bool prefix;                     /* "[rank] " before each line */
    enum output_pty pty;             /* what the ranks' standard output is */
    char cli[CONFIG_LIST_BYTES + 1]; /* HVD_CLI of the ranks */
    char *const *command;            /* with its arguments, NULL-terminated; points into argv */
};

/* Parse [argv]. Options for the ranks are appended to [inherited_cli], the HVD_CLI of an outer launcher
 * (NULL: none), and override it. Returns HVD_OK, or HVD_ERR_INVALID with the message for the user. */
int hvdrun_options_parse(struct hvdrun_options *options, char *const *argv, const char *inherited_cli,
                         struct hvd_error *err);

/* Print the text of --help. */
void hvdrun_options_help(FILE *to);

#endif
