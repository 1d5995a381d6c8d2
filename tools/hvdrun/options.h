/* options.h: hvdrun's command line. */
#ifndef TOOLS_HVDRUN_OPTIONS_H
#define TOOLS_HVDRUN_OPTIONS_H

#include <stdio.h>

#include "options/config.h"
#include "tools/hvdrun/output.h"
#include "tools/hvdrun/rank_count.h"

#define HVDRUN_MAX_VARIABLES 64

struct hvdrun_options {
    enum { HVDRUN_RUN, HVDRUN_HELP, HVDRUN_VERSION } action;
    int ranks;                    /* 1 to HVDRUN_MAX_RANKS; 0: not given */
    const char *erf;              /* explicit resource file, points into argv; NULL: none */
    int64_t grace_us;             /* from SIGTERM to SIGKILL */
    struct output_options output; /* points into argv */
    const char
        *variables[HVDRUN_MAX_VARIABLES + 1]; /* "NAME=value" for the ranks, NULL-terminated; into argv */
    char cli[CONFIG_LIST_BYTES + 1];          /* HVD_CLI of the ranks */
    char *const *command;                     /* with its arguments, NULL-terminated; points into argv */
};

/* Parse [argv]. Options for the ranks are appended to [inherited_cli], the HVD_CLI of an outer launcher
 * (NULL: none), and override it. Returns HVD_OK, or HVD_ERR_INVALID with the message for the user. */
int hvdrun_options_parse(struct hvdrun_options *options, char *const *argv, const char *inherited_cli,
                         struct hvd_error *err);

/* Print the text of --help. */
void hvdrun_options_help(FILE *to);

#endif
