/* ask.h: run another program to its end, and collect what it writes. */
#ifndef TOOLS_COMMON_ASK_H
#define TOOLS_COMMON_ASK_H

#include <stdint.h>

#include "base/status.h"

/* The texts of its standard output and error. Neither is NULL if ask_program returned HVD_OK. */
struct program_answer {
    char *output, *complaints;
};

/* Run [words], looked up in PATH, in [environment] and without input. After [limit_us] it is ended, and what
 * it has written until then is the answer. HVD_OK, HVD_ERR_SYSTEM if it cannot be started, or
 * HVD_ERR_NO_MEMORY, also if it writes more than 1 GiB. Always free the answer. */
int ask_program(const char *const *words, char *const *environment, int64_t limit_us,
                struct program_answer *answer, struct hvd_error *err);
void program_answer_free(struct program_answer *answer);

#endif
