/* state_words.c: what a rank does with operations, in words. */
#include "trace/state_words.h"

static void add_time(struct sentence *sentence, const char *before, int64_t us, const char *after)
{
    if (us < 0)
        return;
    sentence_add(sentence, "%s", before);
    sentence_add_time(sentence, us);
    sentence_add(sentence, "%s", after);
}

void state_words_add_last(struct sentence *sentence, const char *last, int64_t ago_us)
{
    if (last == NULL) {
        sentence_add(sentence, "has submitted nothing yet");
        return;
    }
    sentence_add(sentence, "last submitted %s", last);
    add_time(sentence, ", ", ago_us, " ago");
}

static void add_in(struct sentence *sentence, const struct state_words *words)
{
    sentence_add(sentence, "in %s%s", words->operation, words->detail == NULL ? "" : words->detail);
    add_time(sentence, " for ", words->for_us, "");
    if (words->waits_for != NULL)
        sentence_add(sentence, ", waits for %s", words->waits_for);
}

static void add_computes(struct sentence *sentence, const struct state_words *words)
{
    sentence_add(sentence, "computing");
    add_time(sentence, " for ", words->for_us, "");
    if (words->operation != NULL)
        sentence_add(sentence, ", with %s%s in flight", words->operation,
                     words->detail == NULL ? "" : words->detail);
    else
        sentence_add(sentence, " since %s", words->last == NULL ? "hvd_init" : words->last);
}

void state_words_add(struct sentence *sentence, const struct state_words *words)
{
    switch (words->verb) {
    case STATE_IN:
        add_in(sentence, words);
        break;
    case STATE_MISSES:
        sentence_add(sentence, "has not submitted %s; ", words->operation);
        state_words_add_last(sentence, words->last, words->last_us);
        break;
    case STATE_COMPUTES:
        add_computes(sentence, words);
        break;
    }
}
