/* switch.h: what makes a step one that uses hvd: --hvd, or a variable of an option. */
#ifndef SPANK_SWITCH_H
#define SPANK_SWITCH_H

#include <stdbool.h>

/* --hvd[=WORD]: use hvd in the step without setting one of its options, or do not use it. */
enum hvd_switch { HVD_UNSET, HVD_ON, HVD_OFF, HVD_VERBOSE };

/* Was the option given without a value? [word] is what Slurm hands its callback. */
bool switch_is_bare(const char *word);

/* Read the word; NULL and "" are on. Returns false, and leaves *switchp, if it is none. */
bool switch_parse(const char *word, enum hvd_switch *switchp);

/* Does [environment] hold a variable of the user's for an option, such as HVD_FUSION? */
bool switch_in_environment(char *const *environment);

/* The option --hvd-min, which makes a step elastic: how many ranks it must have at least; and --hvd-spares:
 * how many of its ranks wait until others are lost. */
#define SWITCH_MIN        "min"
#define SWITCH_SPARES     "spares"
#define SWITCH_MOST_RANKS 1000000

/* A number of ranks, at least one. False if [word] is none; *countp is then unchanged. */
bool switch_parse_ranks(const char *word, int *countp);

#endif
