/* horovod.h: what Horovod's variables mean to hvd. A row of the option table names the variable that sets
 * that option; here are the reading of their values, and the variables of which hvd takes none. */
#ifndef OPTIONS_HOROVOD_H
#define OPTIONS_HOROVOD_H

#include "options/nearest.h"
#include "options/option.h"

/* A variable of Horovod that sets no option of hvd. */
struct horovod_variable {
    const char *name;
    const char *agreed; /* the value that asks for what hvd does anyway, or NULL */
    const char *answer; /* what hvd has in its place; NULL: nothing need be said */
};

extern const struct horovod_variable horovod_variables[];
extern const int horovod_variable_count;

/* Write [given], the value of the option's variable of Horovod, in our syntax into [text], of
 * OPTION_VALUE_BYTES + 1 bytes. Returns HVD_OK, HVD_ERR_INVALID, or HVD_IN_PROGRESS if the value is not
 * taken: then *whyp is the sentence for the user, or NULL where there is nothing to say. */
int horovod_value(const struct hvd_option *option, const char *given, char *text, const char **whyp,
                  struct hvd_error *err);

/* The same for option->horovod_zero_if, which sets the option to 0 or leaves it as it is. */
int horovod_switch_off(const char *given, char *text, const char **whyp);

/* The sentence for the user about a variable whose name begins with HOROVOD_ and that no option names; NULL:
 * there is nothing to say. [hint] keeps the sentence where it is made. */
const char *horovod_remark(const char *name, const char *value, char hint[NEAREST_HINT_BYTES]);

#endif
