/* option.h: the table of options. Each row declares one option; the field of struct hvd_config that holds its
 * value, SPANK, hvdrun, the environment, plugstack.conf, hvdinfo, the manual pages and the tests follow from
 * it. A new option is one row, its field and its documentation. */
#ifndef OPTIONS_OPTION_H
#define OPTIONS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct hvd_config;
struct hvd_option;

/* Longest text of a value, in bytes. Longer ones are refused. */
#define OPTION_VALUE_BYTES 1023

/* The field of an option whose value is its text. */
typedef char option_text[OPTION_VALUE_BYTES + 1];

enum progress_mode { PROGRESS_MODE_ADAPTIVE, PROGRESS_MODE_SPIN, PROGRESS_MODE_BLOCK };

/* How values of one type are read, kept in a field, and written. */
struct option_type {
    size_t bytes; /* of the field */
    /* Read [text] into [field]. Returns 0; or -1 with a phrase in *whyp, and [field] undefined. */
    int (*parse)(const struct hvd_option *option, const char *text, void *field, const char **whyp);
    /* Write the value of [field] as a user types it. NULL: the user's own text is shown. */
    void (*format)(const struct hvd_option *option, const void *field, char *text, size_t text_bytes);
    /* Say which values are accepted: a constant phrase, or where that is NULL, [describe]. */
    const char *expected;
    void (*describe)(const struct hvd_option *option, char *text, size_t text_bytes);
};

struct hvd_option {
    const char *name; /* "fusion": --hvd-fusion, HVD_FUSION, fusion= in plugstack.conf and HVD_CLI */
    const char *arg;  /* "SIZE" */
    const char *def;  /* as a user types it */
    const char *help; /* one line, without a final stop */
    const struct option_type *type; /* NULL only where [retired] is set */
    size_t offset;                  /* of its field in struct hvd_config */
    int64_t min, max;               /* sizes, times and numbers */
    const char *const *choices;     /* NULL-terminated: choices and lists */
    const int *choice_values;       /* what the field holds for each choice; NULL: its index */
    bool job_wide;                  /* must be equal on all ranks: hvd_init checks it */
    bool places_tasks;              /* says how the tasks of a node are placed */
    const char *horovod;            /* the Horovod variable that means the same, or NULL */
    const char *horovod_unit;       /* what to append to its value, or NULL: it is in our syntax */
    const char *horovod_never; /* why its values are not taken: the sentence that tells users what to do */
    const char *horovod_zero;  /* the same, for the value 0 only */
    const struct option_synonym *horovod_synonyms; /* its values and ours; it has no others. NULL: the same */
    const char *retired; /* no longer does anything: the sentence that tells users what to do */
};

/* A table of these ends with a NULL. */
struct option_synonym {
    const char *theirs, *ours;
};

#define OPTION_MAX 32 /* room for rows in arrays that have an element for each option */

extern const struct hvd_option option_table[];
extern const int option_count;

/* The row number of an option. */
static inline int option_index(const struct hvd_option *option)
{
    return (int)(option - option_table);
}

/* The option of that name ("fusion"), or NULL. */
const struct hvd_option *option_find(const char *name);

/* The option whose field of struct hvd_config is at that offset, or NULL. See OPTION_OF in config.h. */
const struct hvd_option *option_at(size_t offset);

/* Check [text] as a value of [option], and keep it in its field of *config, unless that is NULL. [where] is
 * how the user spelled the option ("--hvd-fusion", "HVD_FUSION", "fusion in /etc/hvd.yaml"); it begins the
 * sentence in [err]. Retired options are refused with their sentence. Returns HVD_OK or HVD_ERR_INVALID with
 * *config unchanged. */
int option_parse(const struct hvd_option *option, const char *where, const char *text,
                 struct hvd_config *config, struct hvd_error *err);

/* An entry of a list of choices: the index of the [i]th in choices, or -1 past the end. */
int option_list_choice(uint64_t list, int i);

/* "HVD_FUSION" into [buffer], which has room for 64 bytes. */
void option_env_name(const struct hvd_option *option, char *buffer);

/* Which values are accepted: "a size such as 64M, between 0 and 16G". The sentence of a retired option. */
void option_expected(const struct hvd_option *option, char *text, size_t text_bytes);

#endif
