/* words.h: a rank's state as a sentence. Pure. */
#ifndef TOOLS_HVDINFO_PS_WORDS_H
#define TOOLS_HVDINFO_PS_WORDS_H

#include "tools/hvdinfo/ps/rank.h"

#define WORDS_BYTES 1600

/* `in allreduce "x" (24 MiB) for 4.2 s, waits for rank 3`, of a rank that judge.c has judged. Without its
 * times where [now_us] is WORDS_NO_TIME: ranks that do the same then have the same words. Returns [text]. */
#define WORDS_NO_TIME INT64_MIN
const char *words_of_rank(const struct rank *rank, int64_t now_us, char text[WORDS_BYTES]);

/* One word, for scripts. */
const char *words_of_state(enum rank_doing state);

/* A number of bytes, such as "24 MiB". Returns [text]. */
#define WORDS_SIZE_BYTES 32
const char *words_of_size(int64_t bytes, char text[WORDS_SIZE_BYTES]);

#endif
