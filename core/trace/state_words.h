/* state_words.h: what a rank does with operations, in words. The stall warning, the launcher's last line and
 * hvdinfo ps all say it by this, so that what one of them says is found in the others. Pure. */
#ifndef TRACE_STATE_WORDS_H
#define TRACE_STATE_WORDS_H

#include "trace/sentence.h"

enum state_verb {
    STATE_IN,     /* an operation, or a call */
    STATE_MISSES, /* an operation: others wait in it */
    STATE_COMPUTES
};

/* Texts may be NULL, times negative: that is not said. */
struct state_words {
    enum state_verb verb;
    const char *operation; /* which it is in, misses, or has in flight */
    const char *detail;    /* of the operation, as it stands behind it: ", which it transfers" */
    const char *waits_for; /* "rank 3 (n2)" */
    const char *last;      /* the operation that it submitted last */
    int64_t for_us;        /* since when it is in it, or computes */
    int64_t last_us;       /* how long ago it submitted the last one */
};

/* `in allreduce "x" for 4.2 s, waits for rank 3 (n2)`, or `has not submitted allreduce "x"; last submitted
 * allreduce "y", 4.3 s ago`, or `computing for 0.3 s since allreduce "y"`. */
void state_words_add(struct sentence *sentence, const struct state_words *words);

/* Only `last submitted allreduce "y", 4.3 s ago`, or `has submitted nothing yet`. */
void state_words_add_last(struct sentence *sentence, const char *last, int64_t ago_us);

#endif
