/* prefetch.h: asking for a cache line before it is due. What lies there does not matter: nothing is read. */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

static inline void prefetch_to_read(const char *line)
{
    __builtin_prefetch(line);
}

/* For x86-64 compilers make a read of it unless they are told of a processor that has the other one: but
 * those that have not take it for nothing. */
static inline void prefetch_to_write(const char *line)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
}

#endif
