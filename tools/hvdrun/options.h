/* options.h: hvdrun's command line. */
#ifndef TOOLS_HVDRUN_OPTIONS_H
#define TOOLS_HVDRUN_OPTIONS_H

#include <stdio.h>

#include "options/config.h"
#include "tools/hvdrun/cooldown.h"
#include "tools/hvdrun/launcher/launcher.h"
#include "tools/hvdrun/output.h"
#include "tools/hvdrun/rank_count.h"

#define HVDRUN_MAX_VARIABLES 64
#define HVDRUN_MAX_APPS      64
#define HVDRUN_MAX_RESTARTS  1000
#define HVDRUN_MAX_ASKED     1048576 /* ranks; hvdrun itself starts up to HVDRUN_MAX_RANKS */

enum launch_option {
    LAUNCH_RANKS,
    LAUNCH_HOSTS,
    LAUNCH_HOSTFILE,
    LAUNCH_LAUNCHER,
    LAUNCH_JOIN,
    LAUNCH_DRY_RUN,
    LAUNCH_VERBOSE,
    LAUNCH_MAX_RESTARTS,
    LAUNCH_MIN_NP,
    LAUNCH_MAX_NP,
    LAUNCH_DISCOVERY,
    LAUNCH_DISCOVERY_SCRIPT,
    LAUNCH_SLOTS_PER_HOST,
    LAUNCH_ELASTIC_TIMEOUT,
    LAUNCH_RESET_LIMIT,
    LAUNCH_HOST_COOLDOWN,
    LAUNCH_HEALTH_CHECK,
    LAUNCH_GRACE,
    LAUNCH_LINE_PREFIX,
    LAUNCH_NO_PREFIX,
    LAUNCH_PTY,
    LAUNCH_TIMESTAMPS,
    LAUNCH_OUTPUT_DIR,
    LAUNCH_ONLY_RANK,
    LAUNCH_RUN_ID,
    LAUNCH_EVENTS,
    LAUNCH_METRICS,
    LAUNCH_ENV,
    LAUNCH_HELP,
    LAUNCH_VERSION,
    /* jsrun's options: how many ranks there are, and where they run */
    LAUNCH_NP,
    LAUNCH_NRS,
    LAUNCH_TASKS,
    LAUNCH_CPUS,
    LAUNCH_GPUS,
    LAUNCH_PER_HOST,
    LAUNCH_BIND,
    LAUNCH_DISTRIBUTION,
    LAUNCH_LATENCY,
    LAUNCH_ERF,
    /* torchrun's options */
    LAUNCH_NPROC,
    LAUNCH_NNODES,
    LAUNCH_NODE_RANK,
    LAUNCH_RDZV_ID,
    LAUNCH_RDZV_BACKEND,
    LAUNCH_RDZV_ENDPOINT,
    LAUNCH_STANDALONE,
    LAUNCH_MONITOR_INTERVAL,
    LAUNCH_ROLE,
    LAUNCH_LOG_DIR,
    LAUNCH_TEE,
    LAUNCH_REDIRECTS,
    LAUNCH_LOCAL_RANKS_FILTER,
    LAUNCH_MODULE,
    LAUNCH_NO_PYTHON,
    LAUNCH_COUNT
};

/* One program of a job. */
struct hvdrun_app {
    int ranks;            /* 0: not given, which only a job of one program may leave out */
    char *const *command; /* with its arguments; points into argv */
    int word_count;       /* of the command; what follows is no part of it */
    bool is_module;       /* of Python, which starts it */
};

struct hvdrun_options {
    enum { HVDRUN_RUN, HVDRUN_HELP, HVDRUN_VERSION } action;
    int ranks;              /* of all programs, 1 to HVDRUN_MAX_ASKED; 0: not given */
    enum launcher launcher; /* LAUNCHER_AUTO unless given */
    const char *join;       /* HOST:PORT of an hvdrun whose agent this one is; NULL: it starts a job */
    bool dry_run, verbose;
    int max_restarts; /* of the job; of each rank in an elastic job, */
    int fewest;       /* which goes on after a failure with so many ranks; 0: it ends, and is not elastic */
    int most;         /* ranks that an elastic job may grow to; 0: not given */
    const char *discovery;    /* the command that says which hosts there are; NULL: none */
    const char *health_check; /* the command that says whether a host may have ranks; NULL: none */
    int slots_per_host;       /* of hosts without a number; with --nproc-per-node of all nodes of agents */
    int64_t
        elastic_timeout_us; /* how long an elastic job waits for ranks that it lacks, or that must leave */
    int64_t reset_limit;    /* after so many changes of the epoch it ends; 0: no limit */
    const char
        *values[LAUNCH_COUNT];      /* as given last, into argv; "": given without a value; NULL: not given */
    const char *erf;                /* explicit resource file, points into argv; NULL: none */
    struct cooldown_range cooldown; /* of hosts on which ranks failed */
    int64_t grace_us;               /* from SIGTERM to SIGKILL */
    struct output_options output;   /* points into argv */
    const char *run_id;             /* NULL: hvdrun draws one */
    int nodes_fewest, nodes_most;   /* --nnodes; 0: not given */
    bool module;                    /* the command is a module of Python */
    const char *events, *metrics;   /* where to; NULL: nowhere */
    const char
        *variables[HVDRUN_MAX_VARIABLES + 1]; /* "NAME=value" for the ranks, NULL-terminated; into argv */
    const char *forwarded[HVDRUN_MAX_VARIABLES + 1]; /* names of variables to hand on; NULL-terminated; into
                                                        argv */
    char cli[CONFIG_LIST_BYTES + 1];                 /* HVD_CLI of the ranks */
    size_t cli_sets;        /* where in it the sets begin that jsrun's options ask for */
    struct rs_options sets; /* these sets, if sets.given */
    const char *ranks_from; /* how the number of ranks was given; NULL: not */
    const char *sets_from;  /* the last of jsrun's options that was given; NULL: none */
    bool rs_given;          /* --hvd-rs was */
    struct hvdrun_app apps[HVDRUN_MAX_APPS];
    int app_count;
};

/* Parse [argv]. Options for the ranks are appended to [inherited_cli], the HVD_CLI of an outer launcher
 * (NULL: none), and override it. Returns HVD_OK, or HVD_ERR_INVALID with the message for the user. */
int hvdrun_options_parse(struct hvdrun_options *options, char *const *argv, const char *inherited_cli,
                         struct hvd_error *err);

/* The name of an option, "--grace", and whether it was given. */
const char *hvdrun_option_name(enum launch_option id);
bool hvdrun_option_given(const struct hvdrun_options *options, enum launch_option id);

/* Is a hostfile read again and again while an elastic job runs on this machine? */
bool hvdrun_options_watch_hostfile(const struct hvdrun_options *options);

/* HVD_ERR_INVALID if --only-rank names a rank that a job of [ranks] does not have. */
int hvdrun_options_check_only_rank(const struct hvdrun_options *options, int ranks, struct hvd_error *err);

/* The command line of a program: how many words it has, and its [i]th. */
int hvdrun_app_words(const struct hvdrun_app *app);
char *hvdrun_app_word(const struct hvdrun_app *app, int i);

/* Print the text of --help. */
void hvdrun_options_help(FILE *to);

#endif
