/* sentence.c: text that is put together in memory of a fixed size. */
#include "trace/sentence.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sentence_add(struct sentence *sentence, const char *format, ...)
{
    size_t left = sentence->capacity - sentence->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(sentence->text + sentence->used, left, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < left) {
        sentence->used += (size_t)length;
        return;
    }
    memcpy(sentence->text + sentence->capacity - 4, "...", 4);
    sentence->used = sentence->capacity - 1;
}

void sentence_add_time(struct sentence *sentence, int64_t us)
{
    double seconds = us < 0 ? 0 : (double)us / 1e6;
    sentence_add(sentence, seconds < 0.995 ? "%.2f s" : seconds < 99.95 ? "%.1f s" : "%.0f s", seconds);
}
