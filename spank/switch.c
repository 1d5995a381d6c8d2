/* switch.c: what makes a step one that uses hvd. */
#include "spank/switch.h"

#include <string.h>

#include "base/env.h"
#include "options/option.h"
#include "options/parse.h"

bool switch_is_bare(const char *word)
{
    /* "(null)": so Slurm 22.05 hands down an option that was given without a value */
    return word == NULL || word[0] == 0 || strcmp(word, "(null)") == 0;
}

bool switch_parse(const char *word, enum hvd_switch *switchp)
{
    static const char *const words[] = {[HVD_ON] = "on", [HVD_OFF] = "off", [HVD_VERBOSE] = "verbose"};
    if (switch_is_bare(word))
        word = words[HVD_ON];
    for (int i = HVD_ON; i <= HVD_VERBOSE; i++) {
        if (strcmp(word, words[i]) == 0) {
            *switchp = (enum hvd_switch)i;
            return true;
        }
    }
    return false;
}

bool switch_parse_ranks(const char *word, int *countp)
{
    int64_t number = parse_count_or(word, 0);
    if (number < 1 || number > SWITCH_MOST_RANKS)
        return false;
    *countp = (int)number;
    return true;
}

bool switch_in_environment(char *const *environment)
{
    for (int i = 0; i < option_count; i++) {
        char name[64];
        option_env_name(&option_table[i], name);
        if (environment_value(environment, name) != NULL)
            return true;
    }
    return false;
}
