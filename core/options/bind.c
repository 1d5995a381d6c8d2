/* bind.c: the values of --hvd-bind. */
#include "options/bind.h"

#include <string.h>

#include "options/token.h"

const char *const bind_policy_names[BIND_COUNT + 1] = {
    [BIND_AUTO] = "auto", [BIND_GPU] = "gpu",   [BIND_NUMA] = "numa", [BIND_SOCKET] = "socket",
    [BIND_L3] = "l3",     [BIND_CORE] = "core", [BIND_NONE] = "none", [BIND_COUNT] = NULL};

const char bind_expected[] = "auto, gpu, numa, socket, l3, core or none, then with commas what is wanted of "
                             "verbose, force, smt:K (1 to "
                             "64 hardware threads of each core), reserve:N (up to 4096 cores for the system)";

enum bind_key {
    BIND_KEY_POLICY,
    BIND_KEY_VERBOSE,
    BIND_KEY_FORCE,
    BIND_KEY_SMT,
    BIND_KEY_RESERVE,
    BIND_KEY_COUNT
};

static int parse_item(struct token token, struct bind_options *options, enum bind_key *kindp,
                      const char **whyp)
{
    struct token value;
    if (token_equals(token, "verbose")) {
        *kindp = BIND_KEY_VERBOSE;
        options->verbose = true;
    } else if (token_equals(token, "force")) {
        *kindp = BIND_KEY_FORCE;
        options->force = true;
    } else if (token_strip_prefix(token, "smt:", &value)) {
        *kindp = BIND_KEY_SMT;
        return token_parse_number(value, 1, BIND_MAX_SMT, &options->smt, whyp);
    } else if (token_strip_prefix(token, "reserve:", &value)) {
        *kindp = BIND_KEY_RESERVE;
        return token_parse_number(value, 0, BIND_MAX_RESERVE, &options->reserve, whyp);
    } else {
        int policy = token_find_choice(token, bind_policy_names);
        *kindp = BIND_KEY_POLICY;
        *whyp = token.length == 0 ? "has an empty word" : "has an unknown word";
        if (policy < 0)
            return -1;
        options->policy = (enum bind_policy)policy;
    }
    return 0;
}

int bind_parse(const char *text, struct bind_options *options, const char **whyp)
{
    struct bind_options read = {.policy = BIND_AUTO};
    bool seen[BIND_KEY_COUNT] = {false};
    struct token token;
    if (*text == 0) {
        *whyp = "is empty";
        return -1;
    }
    for (const char *at = text; at != NULL;) {
        enum bind_key kind;
        at = token_next(at, ',', &token);
        if (parse_item(token, &read, &kind, whyp) < 0)
            return -1;
        if (seen[kind]) {
            *whyp = kind == BIND_KEY_POLICY ? "names two policies" : "has a word twice";
            return -1;
        }
        seen[kind] = true;
    }
    *options = read;
    return 0;
}
