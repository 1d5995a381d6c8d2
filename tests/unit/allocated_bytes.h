/* allocated_bytes.h: how much memory a test's process has from malloc, to find what is never freed. */
#ifndef TESTS_UNIT_ALLOCATED_BYTES_H
#define TESTS_UNIT_ALLOCATED_BYTES_H

#include <malloc.h>
#include <stddef.h>

/* Compare it with an earlier call's result, and let far more be lost in between than malloc keeps for later.
 * Always 0 under AddressSanitizer, which looks for leaks itself. */
static inline size_t allocated_bytes(void)
{
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    struct mallinfo info = mallinfo(); /* its numbers are int */
    return (size_t)(unsigned)info.uordblks + (size_t)(unsigned)info.hblkhd;
#endif
}

#endif
