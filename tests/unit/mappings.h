/* mappings.h: the kernel's view of mapped memory. */
#ifndef TESTS_UNIT_MAPPINGS_H
#define TESTS_UNIT_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"

/* Of the mapping that has [address] in it: is this flag, two letters after a space, in the kernel's list? */
static inline bool has_flag(const void *address, const char *flag)
{
    char line[1000];
    bool here = false, found = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long begin = 0, end = 0;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = (uintptr_t)address >= begin && (uintptr_t)address < end;
        if (here && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, flag) != NULL;
    }
    fclose(maps);
    return found;
}

/* Whether the page at [address] is mapped. */
static inline bool is_mapped(void *address)
{
    unsigned char resident;
    return mincore(address, 1, &resident) == 0;
}

/* Limit this process to mapping [bytes] more. Returns the old limit, for setrlimit. */
static inline struct rlimit limit_mappings(uint64_t bytes)
{
    struct rlimit before, limit;
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = pages * (uint64_t)sysconf(_SC_PAGESIZE) + bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    return before;
}

#endif
