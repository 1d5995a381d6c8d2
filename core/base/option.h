/* option.h: the table of options. What SPANK, hvdrun, the environment, plugstack.conf, hvdinfo, the man
 * pages and the tests know of options is derived from it. */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum option_id {
    OPT_FUSION,
    OPT_BACKENDS,
    OPT_TCP_STREAMS,
    OPT_START_TIMEOUT,
    OPT_LEASE,
    OPT_KILL_WAIT,
    OPT_CACHE,
    OPT_INFLIGHT,
    OPT_CHUNK,
    OPT_AUTOTUNE,
    OPT_AUTOTUNE_FILE,
    OPT_STALL_WARN,
    OPT_STALL_ABORT,
    OPT_TIMELINE,
    OPT_DUMP_DIR,
    OPT_STOP_SIGNAL,
    OPT_PROGRESS,
    OPT_LOG,
    OPT_CONFIG,
    OPT_BIND,
    OPT_GPU_VISIBLE,
    OPT_NICS,
    OPT_RS,
    OPT_CYCLE_TIME,
    OPT_COUNT
};

/* OPT_PROGRESS. */
enum progress_mode { PROGRESS_MODE_ADAPTIVE, PROGRESS_MODE_SPIN, PROGRESS_MODE_BLOCK };

enum option_type {
    OPTION_SIZE,   /* int64_t: bytes */
    OPTION_TIME,   /* int64_t: microseconds */
    OPTION_NUMBER, /* int64_t: of whatever the option counts */
    OPTION_CHOICE, /* int64_t: index into choices */
    OPTION_LIST,   /* uint64_t list of choices, see option_list_choice */
    OPTION_FILE,   /* its value is the text */
    OPTION_FOLDER, /* the same */
    OPTION_CUSTOM  /* the same, of a form that the option checks */
};

struct hvd_option {
    const char *name; /* "fusion": --hvd-fusion, HVD_FUSION, fusion= in plugstack.conf and HVD_CLI */
    const char *arg;  /* "SIZE" */
    const char *def;  /* as a user types it */
    const char *help; /* one line, without a final stop */
    enum option_type type;
    int64_t min, max;           /* OPTION_SIZE, OPTION_TIME and OPTION_NUMBER */
    const char *const *choices; /* NULL-terminated, for OPTION_CHOICE and OPTION_LIST */
    int (*check)(const char *text, const char **whyp); /* OPTION_CUSTOM: 0, or -1 and a phrase in *whyp */
    const char *expected;                              /* the same in words */
    bool job_wide;                                     /* must be equal on all ranks: hvd_init checks it */
    const char *horovod;                               /* the Horovod variable that means the same, or NULL */
    const char *horovod_unit;  /* what to append to its value, or NULL: it is in our syntax */
    const char *horovod_never; /* why its values are not taken: the sentence that tells users what to do */
    const char *horovod_zero;  /* the same, of its value 0 only */
    const char *retired;       /* no longer does anything: the sentence that tells users what to do */
};

extern const struct hvd_option option_table[OPT_COUNT];

/* Longest text of a value, in bytes. Longer ones are refused. */
#define OPTION_VALUE_BYTES 1023

/* The option of that name ("fusion"), or NULL. */
const struct hvd_option *option_find(const char *name);

/* Check [text] as a value of [option] and set *valuep. [where] is how the user spelled the option
 * ("--hvd-fusion", "HVD_FUSION", "fusion in /etc/hvd.yaml"); it begins the sentence in [err]. Retired options
 * are refused with their sentence. Returns HVD_OK or HVD_ERR_INVALID with *valuep unchanged. */
int option_parse(const struct hvd_option *option, const char *where, const char *text, uint64_t *valuep,
                 struct hvd_error *err);

/* A parsed OPTION_LIST: the index of its [i]th entry in choices, or -1 past the end. */
int option_list_choice(uint64_t list, int i);

/* OPT_STOP_SIGNAL: the signal of a choice, 0 for none. */
int option_signal(uint64_t choice);

/* "HVD_FUSION" into [buffer], which has room for 64 bytes. */
void option_env_name(const struct hvd_option *option, char *buffer);

/* What is expected, in words: "a size such as 64M, between 0 and 16G". */
void option_expected(const struct hvd_option *option, char *text, size_t text_bytes);

#endif
