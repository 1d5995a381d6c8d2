/* rank_environment.h: the environment that all ranks share. Does no I/O. */
#ifndef TOOLS_HVDRUN_RANK_ENVIRONMENT_H
#define TOOLS_HVDRUN_RANK_ENVIRONMENT_H

#include <stdbool.h>

#include "base/status.h"

struct rank_environment {
    const char *secret;  /* HVD_JOB_KEY */
    const char *cli;     /* HVD_CLI; "": none */
    const char *shared;  /* the folder for Open MPI's shared memory; "": its default */
    const char *restart; /* HVD_RESTART; NULL: as in hvdrun's own environment */
    const char *run_id;  /* TORCHELASTIC_RUN_ID, unless the user sets it; so too below */
    const char *role;    /* ROLE_NAME */
    int max_restarts;    /* TORCHELASTIC_MAX_RESTARTS */
    int master_port;     /* MASTER_PORT; 0: none was found, and the user's stays */
    const char *const
        *variables; /* "NAME=value" that the user gave for the ranks, NULL-terminated; or NULL */
    bool colours;   /* the ranks' output goes to a terminal, which shows them */
};

/* Returns hvdrun's own [environment] without the variables of an outer launcher, with those that an
 * unmodified Open MPI program needs, and with [settings]. The result is NULL-terminated; free it with
 * rank_environment_free. NULL if memory ran out. */
char **rank_environment_create(char *const *environment, const struct rank_environment *settings);
void rank_environment_free(char **environment);

#endif
