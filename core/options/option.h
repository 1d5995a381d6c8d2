/* option.h: the table of options. Each row declares one option; struct hvd_config has a field for its value.
 * SPANK, hvdrun, the environment, plugstack.conf, hvdinfo, the manual pages and the tests derive theirs from
 * the row. To add an option, add a row, its field and its documentation.
 *
 * options/ promises the rest of hvd: this table, the checked reading of values (parse.h, option_type.h, and
 * bind.h, nic_filter.h, resource_set.h for values with a syntax of their own), and the options in force in a
 * process with who set each (config.h). A bad value is
 * refused with a sentence and changes nothing. */
#ifndef OPTIONS_OPTION_H
#define OPTIONS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct hvd_config;
struct hvd_option;

/* The longest text of a value, in bytes. Longer ones are refused. */
#define OPTION_VALUE_BYTES 1023

/* The type of a field that holds the text of a value. */
typedef char option_text[OPTION_VALUE_BYTES + 1];

enum progress_mode { PROGRESS_MODE_ADAPTIVE, PROGRESS_MODE_SPIN, PROGRESS_MODE_BLOCK };

/* How values of one type are read, kept in a field, and written. */
struct option_type {
    size_t bytes; /* of the field */
    /* Read [text] into [field]. Returns 0, or -1 with a phrase in *whyp and [field] undefined. */
    int (*parse)(const struct hvd_option *option, const char *text, void *field, const char **whyp);
    /* Write the value of [field] as a user types it. NULL: the user's own text is shown. */
    void (*format)(const struct hvd_option *option, const void *field, char *text, size_t text_bytes);
    const char *bare; /* what --hvd-NAME without a value means; NULL: it needs one */
    /* Which values are accepted: a constant phrase, or if that is NULL, what [describe] writes. */
    const char *expected;
    void (*describe)(const struct hvd_option *option, char *text, size_t text_bytes);
};

struct hvd_option {
    const char *name; /* "fusion": --hvd-fusion, HVD_FUSION, fusion= in plugstack.conf and HVD_CLI */
    const char *arg;  /* "SIZE" */
    const char *def;  /* as a user types it */
    const char *help; /* one line, without a period at the end */
    const struct option_type *type; /* NULL only where [retired] is set */
    size_t offset;                  /* of its field in struct hvd_config */
    int64_t min, max;               /* sizes, times and numbers */
    const char *const *choices;     /* NULL-terminated: choices and lists */
    const int *choice_values;       /* what the field holds for each choice; NULL: its index */
    bool job_wide;                  /* must be equal on all ranks, which hvd_init checks */
    bool places_tasks;              /* says how the tasks of a node are placed */
    const char *horovod;            /* the Horovod variable that means the same, or NULL */
    const char *horovod_unit;       /* append this to its value; NULL: the value is in our syntax */
    const char *horovod_never;      /* its values are never used: the sentence that tells users what to do */
    const char *horovod_zero;       /* the same, for the value 0 only */
    const char *horovod_zero_if;    /* the Horovod variable that sets this option to 0 if it is 1, or NULL */
    const struct option_synonym *horovod_synonyms; /* all of its values, with ours; NULL: they are the same */
    const char *retired; /* the option does nothing any more: the sentence that tells users what to do */
};

/* A Horovod value and ours. Tables of these end with a NULL. */
struct option_synonym {
    const char *theirs, *ours;
};

#define OPTION_MAX 32 /* the size of arrays with an element for each option */

extern const struct hvd_option option_table[];
extern const int option_count;

/* The row number of an option. */
static inline int option_index(const struct hvd_option *option)
{
    return (int)(option - option_table);
}

/* The option named [name] ("fusion"), or NULL. */
const struct hvd_option *option_find(const char *name);

/* The name of the option that a mistyped [name] was meant to be; NULL: none is near. */
const char *option_nearest(const char *name);

/* The option whose field in struct hvd_config has that offset, or NULL. See OPTION_OF in config.h. */
const struct hvd_option *option_at(size_t offset);

/* Check [text] as a value of [option], and store it in its field of *config, unless [config] is NULL. [where]
 * is how the user spelled the option ("--hvd-fusion", "HVD_FUSION", "fusion in /etc/hvd.yaml"); the sentence
 * in [err] begins with it. Retired options are refused with their sentence. Returns HVD_OK, or
 * HVD_ERR_INVALID with *config unchanged. */
int option_parse(const struct hvd_option *option, const char *where, const char *text,
                 struct hvd_config *config, struct hvd_error *err);

/* An entry in a list of choices: the index of the [i]th entry in choices, or -1 past the end. */
int option_list_choice(uint64_t list, int i);

/* Write the option's variable, such as "HVD_FUSION", into [buffer], which has room for 64 bytes. */
void option_env_name(const struct hvd_option *option, char *buffer);

/* Write how the option is typed: "--hvd-fusion=SIZE", or where it may go without a value
 * "--hvd-autotune[=HOW]". */
void option_spelling(const struct hvd_option *option, char *text, size_t text_bytes);

/* Write which values are accepted, "a size such as 64M, between 0 and 16G", or a retired option's
 * sentence. */
void option_expected(const struct hvd_option *option, char *text, size_t text_bytes);

#endif
