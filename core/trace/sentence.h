/* sentence.h: text that is put together in memory of a fixed size. Pure. */
#ifndef TRACE_SENTENCE_H
#define TRACE_SENTENCE_H

#include <stddef.h>
#include <stdint.h>

/* Once it is full it ends in "..." and stays as it is. */
struct sentence {
    char *text;
    size_t used, capacity; /* capacity counts the final 0 and is at least 4; used does not */
};

void sentence_add(struct sentence *sentence, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A duration, to a few digits: "0.31 s", "4.2 s", "312 s". */
void sentence_add_time(struct sentence *sentence, int64_t us);

#endif
