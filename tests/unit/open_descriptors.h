/* open_descriptors.h: how many descriptors a test's process has open, to find those that are left open. */
#ifndef TESTS_UNIT_OPEN_DESCRIPTORS_H
#define TESTS_UNIT_OPEN_DESCRIPTORS_H

#include <dirent.h>
#include <stdlib.h>

/* Compare it with an earlier call's result: it counts entries that are no descriptors, too, the same in each
 * call. */
static inline int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        abort();
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

#endif
